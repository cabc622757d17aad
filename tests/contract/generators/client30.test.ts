// A client that a generator for OpenAPI 3.0 has made from openapi-3.0.yaml, at a live server.
import assert from "node:assert/strict";
import test from "node:test";
import { Algorithm, ApiError, DecisionsService, InsightService, KnowledgeService, OpenAPI, TenantsService } from "./client";
import type { Configuration, Tenant } from "./client";

OpenAPI.BASE = process.env["LAPLACED_URL"] ?? "";

test("a decision and its reward", async () => {
    const decision = await DecisionsService.select({ user: "ann", candidates: ["a", { id: "b" }], decision: "g1", explain: true });
    assert.equal(decision.decision, "g1");
    assert.equal(decision.ranking.length, 2);
    assert.equal(decision.ranking[0]?.arm, decision.arm);
    assert.deepEqual(await DecisionsService.reward({ decision: "g1", reward: 1 }), { applied: true });
});

test("a configuration goes there and comes back, null included", async () => {
    const configuration: Configuration = { algorithm: Algorithm.GP_UCB, arm_dim: 2, arm_kernel: { lengthscale: "median" }, default_reward: null };
    const tenant: Tenant = await TenantsService.putTenant("generated", configuration);
    assert.equal(tenant.configuration.algorithm, "gp-ucb");
    assert.equal(tenant.configuration.arm_kernel.lengthscale, "median");
    assert.equal(tenant.configuration.default_reward, null);
    const graph = await KnowledgeService.putGraph("generated", { edges: [["ann", "bob", 1], ["bob", "cat"]] });
    assert.equal(graph.users, 3);
    const arms = await KnowledgeService.putArms("generated", { arms: [{ id: "tea", features: [1, 0] }, { id: "rum", features: [0, 1] }] });
    assert.deepEqual(arms, { arms: 2, active: 2 });
    const stats = await InsightService.getStats("generated");
    assert.equal(stats.mean_reward, null);
});

test("a problem is an error of the client, with its document", async () => {
    // @ts-expect-error a user has an id of text
    const refused = await DecisionsService.select({ user: true }).catch((e: unknown) => e);
    assert.ok(refused instanceof ApiError);
    assert.equal(refused.status, 400);
    assert.deepEqual(refused.body.errors.map((e: { pointer: string }) => e.pointer), ["/user"]);
});
