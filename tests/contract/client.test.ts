// A client whose types are generated from openapi.yaml, at a live server. tsc proves the types (--strict and more; a line that
// must not compile is marked @ts-expect-error, and is an error when it does), node that the answers are what the types say.
import assert from "node:assert/strict";
import test from "node:test";
import createClient from "openapi-fetch";
import type { components, paths } from "./laplaced.js";

type Schemas = components["schemas"];
type Event = Schemas["Event"];

const baseUrl = process.env["LAPLACED_URL"] ?? "";
const api = createClient<paths>({ baseUrl });

/** The answer's data; a problem document becomes an exception. */
function taken<T>(answer: { data?: T; error?: Schemas["Problem"]; response: Response }): T {
    if (answer.data === undefined) throw new Error(answer.error?.detail ?? `status ${answer.response.status}`);
    return answer.data;
}

test("a decision and its reward", async () => {
    const decision = taken(await api.POST("/select", { body: { user: "ann", candidates: ["a", { id: "b" }], decision: "c1", explain: true } }));
    const drawn: Schemas["Ranked"] | undefined = decision.ranking[0];
    assert.equal(decision.decision, "c1");
    assert.equal(drawn?.arm, decision.arm);
    assert.equal(decision.ranking.length, 2);
    assert.deepEqual(taken(await api.POST("/reward", { body: { decision: "c1", reward: 1 } })), { applied: true });
});

test("many rewards are answered in place, and told apart by their members", async () => {
    taken(await api.POST("/select", { body: { user: "bob", candidates: ["a"], decision: "c2" } }));
    const results = taken(await api.POST("/reward", { body: [{ decision: "c2", reward: 0 }, { decision: "nobody's", reward: 1 }] }));
    assert.ok(Array.isArray(results));
    const words = results.map((r) => (r.applied ? "applied" : "status" in r ? r.status : "duplicate"));
    assert.deepEqual(words, ["applied", 404]);
});

test("another reward for the same decision is a conflict, told by a problem document", async () => {
    taken(await api.POST("/select", { body: { user: "cat", candidates: ["a"], decision: "c3" } }));
    taken(await api.POST("/reward", { body: { decision: "c3", reward: 1 } }));
    const { data, error, response } = await api.POST("/reward", { body: { decision: "c3", reward: 0 } });
    assert.equal(data, undefined);
    assert.equal(response.status, 409);
    assert.equal(response.headers.get("content-type"), "application/problem+json");
    assert.equal(error?.status, 409);
    assert.equal(error?.title, "Conflict");
});

test("faults of a body are named by pointers", async () => {
    // @ts-expect-error a user has an id of text, or one that is a whole number
    const { error } = await api.POST("/select", { body: { user: true, colour: "red" } });
    assert.deepEqual(error?.errors?.map((e) => e.pointer).sort(), ["/colour", "/user"]);
});

test("a tenant's configuration comes back with every field filled", async () => {
    const configuration: Schemas["Configuration"] = { algorithm: "gp-ucb", arm_dim: 2, arm_kernel: { type: "rbf", lengthscale: "median" } };
    const tenant = taken(await api.PUT("/tenants/{tenant}", { params: { path: { tenant: "typed" } }, body: configuration }));
    const lambda: number = tenant.parameters.representation.lambda;
    const inForce: number = tenant.parameters.arm_kernel.lengthscale;
    assert.ok(lambda > 0 && inForce > 0);
    assert.equal(tenant.configuration.arm_kernel.lengthscale, "median");
    // @ts-expect-error the contract lists the presets
    const wrong: Schemas["Configuration"] = { algorithm: "oracle" };
    const { error } = await api.PUT("/tenants/{tenant}", { params: { path: { tenant: "typed" } }, body: wrong });
    assert.equal(error?.status, 400);
});

test("graph, arms and a decision of the tenant named by the header", async () => {
    const path = { tenant: "typed" };
    const edges: Schemas["Edge"][] = [["ann", "bob", 1], ["bob", "cat", 2]];
    assert.equal(taken(await api.PUT("/tenants/{tenant}/graph", { params: { path }, body: { edges } })).users, 3);
    const arms = [{ id: "tea", features: [1, 0] }, { id: "rum", features: [0, 1], active: false }];
    assert.deepEqual(taken(await api.PUT("/tenants/{tenant}/arms", { params: { path }, body: { arms } })), { arms: 2, active: 1 });
    const header = { "Laplaced-Tenant": "typed" };
    taken(await api.POST("/observe", { params: { header }, body: { user: "ann", arm: "tea", reward: 1 } }));
    assert.equal(taken(await api.POST("/select", { params: { header }, body: { user: "bob" } })).arm, "tea");
    const listed = taken(await api.GET("/tenants")).tenants.find((t) => t.name === "typed");
    assert.ok(listed?.state === "open");
    assert.equal(listed.decisions, 1); // narrowed: only a tenant in memory has counts
});

test("the lines of the log are told apart by their type", async () => {
    const text = taken(await api.GET("/tenants/{tenant}/events", { params: { path: { tenant: "typed" }, query: { limit: 100 } }, parseAs: "text" }));
    const events = text.trimEnd().split("\n").map((line) => JSON.parse(line) as Event);
    const users = events.flatMap((e) => (e.type === "decided" || e.type === "observed" ? [e.user] : []));
    assert.deepEqual(users, ["ann", "bob"]);
    const first = events[0];
    assert.ok(first?.type === "configured");
    assert.equal(first.configuration.algorithm, "gp-ucb");
});

test("a key: made once, in force at once, and revoked", async () => {
    const made = taken(await api.POST("/keys", { body: { label: "typed client" } }));
    assert.deepEqual(made.roles, ["admin"]);
    const { error, response } = await api.GET("/tenants");
    assert.equal(error?.status, 401);
    assert.match(response.headers.get("www-authenticate") ?? "", /^Bearer/);
    const admin = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${made.key}` } });
    const path = { tenant: "typed" };
    const web = taken(await admin.POST("/tenants/{tenant}/keys", { params: { path }, body: { roles: ["decide"], expires_in_s: 600 } }));
    const shop = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${web.key}` } });
    assert.equal(taken(await shop.POST("/select", { body: { user: "ann" } })).arm, "tea"); // it stands for its tenant
    assert.equal((await shop.GET("/tenants/{tenant}", { params: { path } })).error?.status, 403);
    assert.equal((await shop.GET("/tenants/{tenant}", { params: { path: { tenant: "default" } } })).error?.status, 404);
    const gone = await admin.DELETE("/tenants/{tenant}/keys/{key}", { params: { path: { ...path, key: web.id } } });
    assert.equal(gone.response.status, 204);
    assert.equal((await shop.POST("/select", { body: { user: "ann" } })).error?.status, 401);
});
