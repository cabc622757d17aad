// Both clients of Azure Personalizer that npm has, as they are, against a live server: what code that called that service would run.
import assert from "node:assert/strict";
import test from "node:test";
import { ApiKeyCredentials, RestError } from "@azure/ms-rest-js";
import { PersonalizerClient, type PersonalizerModels } from "@azure/cognitiveservices-personalizer";
import * as rest from "@azure-rest/ai-personalizer";
import type { ErrorResponseOutput, EvaluationOutput, PolicyContract, ServiceConfiguration, ServiceConfigurationOutput } from "@azure-rest/ai-personalizer";

const baseUrl = process.env["LAPLACED_URL"]!;

// What of the tenant's own interface is looked at.
interface Line { type: string; at: string; decision: string; arm: string; propensity: number; reward: number; context: number[]; features: number[] }

async function call(method: string, path: string, body?: unknown): Promise<any> {
    const answer = await fetch(baseUrl + path, { method, headers: { "Content-Type": "application/json" }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text && !path.endsWith("/events") ? JSON.parse(text) : text;
}

// The tenant is the key's. Where keys are asked for, whoever makes them shows the administrator's.
const tenant = "menu";
await call("PUT", `/tenants/${tenant}`, { algorithm: "random", features: { mapping: "names-1", dim: 32 } });
const inTenant = { "Laplaced-Tenant": tenant };

const client = new PersonalizerClient(new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": "not-asked-for", ...inTenant } }), baseUrl);
// Its package is one of CommonJS whose types say otherwise.
type Make = typeof rest.default.default;
const given = rest.default as unknown as Make | { default: Make };
const make = typeof given === "function" ? given : given.default;
const preview = make(baseUrl, { key: "not-asked-for" }, { allowInsecureConnection: true });

const events = async (): Promise<Line[]> => (await call("GET", `/tenants/${tenant}/events`)).trim().split("\n").map((line: string) => JSON.parse(line));
const of = async (type: string, decision: string) => (await events()).filter((event) => event.type === type && event.decision === decision);
const learned = async (decision: string) => (await of("rewarded", decision)).map((event) => event.reward);

// Of an answer that was refused.
const refusalOf = (answer: { status: string; body: unknown; headers: Record<string, string | undefined> }) => [answer.status, (answer.body as ErrorResponseOutput).error.code];

const actions = ["pasta", "ice", "juice", "salad"].map((id) => ({ id, features: [{ kitchen: { name: id } }] }));
const request = (more: Partial<PersonalizerModels.RankRequest> = {}) => ({ contextFeatures: [{ user: { age: "young" } }, { device: { mobile: true } }], actions, ...more });

test("v1.0: rank, reward", async () => {
    const ranked = await client.rank(request({ eventId: "one" }));
    assert.equal(ranked.eventId, "one");
    assert.ok(actions.some((action) => action.id === ranked.rewardActionId));
    assert.deepEqual(ranked.ranking, actions.map((action) => ({ id: action.id, probability: 0.25 })));
    await client.events.reward("one", { value: 0.5 });
    assert.deepEqual(await learned("one"), [0.5]);
    const [line] = await of("decided", "one");
    assert.deepEqual([line?.arm, line?.propensity], [ranked.rewardActionId, 0.25]);
    assert.equal(line!.context.length, 32);
    assert.ok(line!.context.some((x) => x !== 0) && line!.features.some((x) => x !== 0));
});

test("an event without an id gets one", async () => {
    const ranked = await client.rank(request());
    await client.events.reward(ranked.eventId!, { value: -1 });
    assert.deepEqual(await learned(ranked.eventId!), [-1]);
});

test("an event that is ranked again has the same answer", async () => {
    const first = await client.rank(request({ eventId: "again" }));
    for (let i = 0; i < 5; i++) assert.deepEqual(await client.rank(request({ eventId: "again" })), first);
    assert.equal((await of("decided", "again")).length, 1);
});

test("an action that is excluded is never shown, and keeps its place with probability 0", async () => {
    for (let i = 0; i < 20; i++) {
        const ranked = await client.rank(request({ excludedActions: ["ice", "nobody"] }));
        assert.notEqual(ranked.rewardActionId, "ice");
        assert.deepEqual(ranked.ranking![1], { id: "ice", probability: 0 });
        assert.ok(ranked.ranking!.every((action, i) => i === 1 || Math.abs(action.probability! - 1 / 3) < 1e-12));
    }
});

// The three rules of events that are activated later.
test("an event that is never activated is not learned, though it has a reward", async () => {
    await client.rank(request({ eventId: "never", deferActivation: true }));
    await client.events.reward("never", { value: 1 });
    assert.deepEqual(await learned("never"), []);
});

test("an event that is activated learns its reward", async () => {
    await client.rank(request({ eventId: "late", deferActivation: true }));
    await client.events.activate("late");
    await client.events.activate("late");
    await client.events.reward("late", { value: 1 });
    assert.deepEqual(await learned("late"), [1]);
});

test("an event that is activated and has no reward learns the default", async () => {
    await call("PATCH", `/tenants/${tenant}`, { reward_window_s: 0.2, default_reward: -0.5 });
    await client.rank(request({ eventId: "silent", deferActivation: true }));
    await client.events.activate("silent");
    for (let i = 0; i < 100 && (await of("expired", "silent")).length === 0; i++) await new Promise((then) => setTimeout(then, 50));
    const [line] = await of("expired", "silent");
    assert.equal(line?.reward, -0.5);
    await client.events.reward("silent", { value: 1 }); // late: no failure, and not learned
    assert.deepEqual(await learned("silent"), []);
    await call("PATCH", `/tenants/${tenant}`, { reward_window_s: 600, default_reward: 0 });
});

test("of several rewards the earliest counts, or their sum", async () => {
    await client.rank(request({ eventId: "two" }));
    await client.events.reward("two", { value: 0.5 });
    await client.events.reward("two", { value: 0.25 });
    assert.deepEqual(await learned("two"), [0.5]);
    await call("PATCH", `/tenants/${tenant}`, { aggregation: "sum" });
    await client.rank(request({ eventId: "sum" }));
    await client.events.reward("sum", { value: 0.5 });
    await client.events.reward("sum", { value: 0.25 });
    assert.deepEqual(await learned("sum"), [0.5, 0.25]);
    await call("PATCH", `/tenants/${tenant}`, { aggregation: "first" });
});

test("a reward of an event that nobody knows is no failure, an activation is", async () => {
    await client.events.reward("unknown", { value: 1 });
    await assert.rejects(client.events.activate("unknown"), (error) => error instanceof RestError && error.statusCode === 400 && error.body.error.code === "InvalidEventIdToActivate");
});

test("ids may be as long as there, and have any letters", async () => {
    for (const eventId of ["a/b c%2F?#é", "x".repeat(256)]) {
        const ranked = await client.rank(request({ eventId }));
        assert.equal(ranked.eventId, eventId);
        await client.events.reward(eventId, { value: 0.75 });
    }
    assert.deepEqual(await learned("a/b c%2F?#é"), [0.75]);
    assert.equal((await events()).filter((event) => event.type === "rewarded" && event.decision.startsWith("event-") && event.reward === 0.75).length, 1);
});

test("refusals have that service's codes, in the body and in the header", async () => {
    const refused = async (body: PersonalizerModels.RankRequest, target: string) =>
        assert.rejects(client.rank(body), (error) => {
            assert.ok(error instanceof RestError);
            assert.equal(error.statusCode, 400);
            assert.equal(error.response!.headers.get("x-ms-error-code"), "InvalidRankRequest");
            assert.deepEqual([error.body.error.code, error.body.error.target], ["InvalidRankRequest", target]);
            return true;
        });
    await refused({ contextFeatures: [], actions: Array.from({ length: 51 }, (_, i) => ({ id: `a${i}`, features: [] })) }, "/actions");
    await refused({ contextFeatures: [], actions: [{ id: "same", features: [] }, { id: "same", features: [] }] }, "/actions/1");
    await refused(request({ excludedActions: actions.map((action) => action.id) }), "/excludedActions");
    await refused({ contextFeatures: ["young"] as never, actions }, "/contextFeatures/0");
    const answer = await fetch(`${baseUrl}/personalizer/v1.0/events/one/reward`, { method: "POST", headers: { "Content-Type": "application/json", ...inTenant }, body: '{"value":1.5}' });
    assert.equal(answer.status, 400);
    assert.equal((await answer.json()).error.code, "InvalidRewardRequest");
});

// --- the client of the preview -----------------------------------------------------------------------------------------

test("v1.1-preview.3: rank, activate, reward", async () => {
    const headers = inTenant;
    const ranked = await preview.path("/rank").post({ headers, body: request({ eventId: "preview", deferActivation: true }) });
    assert.equal(ranked.status, "201");
    assert.equal((ranked.body as rest.RankResponseOutput).eventId, "preview");
    const activated = await preview.path("/events/{eventId}/activate", "preview").post({ headers });
    assert.equal(activated.status, "204");
    const rewarded = await preview.path("/events/{eventId}/reward", "preview").post({ headers, body: { value: 1 } });
    assert.equal(rewarded.status, "204");
    assert.equal(rewarded.headers["laplaced-reward"], "learned");
    assert.deepEqual(await learned("preview"), [1]);
});

test("the service configuration goes there and back", async () => {
    const headers = inTenant;
    const wanted: ServiceConfiguration = { rewardWaitTime: "PT1H30M", defaultReward: 0.25, rewardAggregation: "sum", explorationPercentage: 0.2, modelExportFrequency: "PT5M", logRetentionDays: 30 };
    const put = await preview.path("/configurations/service").put({ headers, body: wanted });
    assert.equal(put.status, "200");
    const got = await preview.path("/configurations/service").get({ headers });
    assert.deepEqual(got.body, put.body);
    const { lastConfigurationEditDate, ...told } = got.body as ServiceConfigurationOutput;
    assert.deepEqual(told, { ...wanted, rewardWaitTime: "PT5400S", logMirrorEnabled: false, learningMode: "Online", isAutoOptimizationEnabled: false });
    assert.equal(lastConfigurationEditDate, (await events()).at(-1)?.at);
    const { configuration } = await call("GET", `/tenants/${tenant}`);
    assert.deepEqual([configuration.reward_window_s, configuration.default_reward, configuration.aggregation, configuration.rule.epsilon, configuration.retention.age_s], [5400, 0.25, "sum", 0.2, 2592000]);
    for (const [member, value] of [["rewardWaitTime", "1h"], ["rewardWaitTime", "PT1S"], ["rewardWaitTime", "P3D"], ["defaultReward", 2], ["rewardAggregation", "last"], ["explorationPercentage", -0.1], ["logRetentionDays", 0.5], ["learningMode", "Sometimes"], ["isAutoOptimizationEnabled", true]] as const) {
        const refused = await preview.path("/configurations/service").put({ headers, body: { ...wanted, [member]: value } as ServiceConfiguration });
        assert.equal(refused.status, "400");
        const { error } = refused.body as ErrorResponseOutput;
        assert.deepEqual([error.code, error.target], ["InvalidServiceConfiguration", `/${member}`]);
    }
    assert.deepEqual((await preview.path("/configurations/service").get({ headers })).body, put.body);
});

test("the modes of learning: the first action for everybody, and nothing learned", async () => {
    const headers = inTenant;
    // Members that are left out stay as they are, which the types do not say.
    const put = (body: Partial<ServiceConfiguration>) => preview.path("/configurations/service").put({ headers, body: body as ServiceConfiguration });
    const modeOf = async (learningMode: ServiceConfiguration["learningMode"] & string) => ((await put({ learningMode })).body as ServiceConfigurationOutput).learningMode;
    const refused = await put({ learningMode: "Apprentice", defaultReward: 0.75 });
    assert.deepEqual(refusalOf(refused), ["400", "InvalidLearningModeServiceConfiguration"]);
    const mirrored = await put({ logMirrorEnabled: true });
    assert.deepEqual([...refusalOf(mirrored), mirrored.headers["x-ms-error-code"]], ["400", "InvalidSasUri", "InvalidSasUri"]);
    assert.equal(await modeOf("Apprentice"), "Apprentice");
    for (const first of [0, 2]) {
        const turned = [...actions.slice(first), ...actions.slice(0, first)];
        assert.equal((await client.rank(request({ actions: turned }))).rewardActionId, turned[0]!.id);
        assert.equal((await client.rank(request({ actions: turned, excludedActions: [turned[0]!.id] }))).rewardActionId, turned[1]!.id);
    }
    assert.ok((await call("GET", `/tenants/${tenant}/stats`)).match.decisions >= 4);
    assert.equal(await modeOf("LoggingOnly"), "LoggingOnly");
    const before = (await call("GET", `/tenants/${tenant}/model`)).dictionary;
    await client.rank(request({ eventId: "logged" }));
    await client.events.reward("logged", { value: 1 });
    assert.deepEqual(await learned("logged"), [1]);
    assert.deepEqual((await call("GET", `/tenants/${tenant}/model`)).dictionary, before);
    assert.equal(await modeOf("Online"), "Online");
});

test("the model: properties, and learning anew", async () => {
    const headers = inTenant;
    const properties = await preview.path("/model/properties").get({ headers });
    assert.equal(properties.status, "200");
    const lines = await events();
    assert.deepEqual(properties.body, { creationTime: lines[0]?.at, lastModifiedTime: lines.at(-1)?.at });
    const reset = await preview.path("/model").delete({ headers });
    assert.equal(reset.status, "204");
    assert.equal((await events()).at(-1)?.type, "forgotten");
    assert.deepEqual((await call("GET", `/tenants/${tenant}/model`)).dictionary, []);
});

test("a policy goes there and back", async () => {
    const headers = inTenant, path = preview.path("/configurations/policy");
    const body: PolicyContract = { name: "Round trip", arguments: "--cb_explore_adf --epsilon 0.25 --cb_type mtr -l 0.01" };
    const put = await path.put({ headers, body });
    assert.deepEqual([put.status, put.body, put.headers["laplaced-ignored"]], ["200", body, "--cb_type, -l"]);
    assert.deepEqual((await path.get({ headers })).body, body);
    assert.deepEqual((await call("GET", `/tenants/${tenant}`)).configuration.rule.epsilon, 0.25);
    assert.deepEqual(refusalOf(await path.put({ headers, body: { ...body, arguments: "--unheard" } })), ["400", "InvalidPolicyConfiguration"]);
    const reset = await path.delete({ headers });
    assert.deepEqual([reset.status, reset.body.name], ["200", "random"]);
});

test("a model goes there and back", async () => {
    const headers = inTenant, path = preview.path("/model");
    const before = await call("GET", `/tenants/${tenant}/events`);
    const got = await path.get({ headers, queryParameters: { signed: true } }).asNodeStream();
    assert.equal(got.status, "200");
    const parts: Buffer[] = [];
    for await (const part of got.body!) parts.push(part as Buffer);
    await client.rank(request({ eventId: "between" }));
    const put = await path.put({ headers, contentType: "application/octet-stream", body: Buffer.concat(parts) });
    assert.equal(put.status, "204");
    assert.equal(await call("GET", `/tenants/${tenant}/events`), before);
    assert.deepEqual(refusalOf(await path.put({ headers, contentType: "application/octet-stream", body: new Uint8Array([1, 2, 3]) })), ["400", "InvalidModelImportFormat"]);
});

test("an evaluation is begun, read, applied and removed", async () => {
    const headers = inTenant;
    await call("PATCH", `/tenants/${tenant}`, { log_candidates: true, aggregation: "first" });
    for (let i = 0; i < 40; i++) {
        await client.rank(request({ eventId: `judged-${i}` }));
        await client.events.reward(`judged-${i}`, { value: i % 2 });
    }
    const body = { name: "all", startTime: new Date(Date.now() - 3600_000), endTime: new Date(Date.now() + 3600_000), policies: [{ name: "wide", arguments: "--cb_explore_adf --epsilon 0.5" }] };
    const begun = await preview.path("/evaluations").post({ headers, body });
    assert.equal(begun.status, "201");
    const { id } = begun.body as EvaluationOutput;
    const one = preview.path("/evaluations/{evaluationId}", id);
    let told: EvaluationOutput;
    for (let i = 0; ; i++) {
        told = (await one.get({ headers })).body as EvaluationOutput;
        if (told.status !== "pending" || i > 600) break;
        await new Promise((then) => setTimeout(then, 100));
    }
    assert.deepEqual([told.status, told.name, told.evaluationType], ["completed", "all", "Manual"]);
    assert.deepEqual(told.policyResults?.map((result) => [result.name, result.policySource]), [["Online", "Online"], ["Baseline", "Baseline"], ["Random", "Random"], ["wide", "Custom"]]);
    assert.ok(told.policyResults![0]!.totalSummary.ipsEstimatorDenominator >= 40 && Number.isFinite(told.policyResults![0]!.totalSummary.averageReward));
    assert.ok((await preview.path("/evaluations").get({ headers })).body.some((each) => each.id === id));
    const applied = await preview.path("/configurations/applyFromEvaluation").post({ headers, body: { evaluationId: id, policyName: "wide" } });
    assert.equal(applied.status, "204");
    assert.equal((await preview.path("/configurations/policy").get({ headers })).body.name, "wide");
    assert.equal((await one.delete({ headers })).status, "204");
    assert.deepEqual(refusalOf(await one.get({ headers })), ["404", "EvaluationNotFound"]);
});

test("the logs: properties, and deletion", async () => {
    const headers = inTenant;
    const properties = await preview.path("/logs/properties").get({ headers });
    assert.equal(properties.status, "200");
    const { dateRange } = properties.body as rest.LogsPropertiesOutput;
    assert.ok(dateRange.from <= dateRange.to);
    const gone = await preview.path("/logs").delete({ headers });
    assert.equal(gone.status, "204");
    const none = await preview.path("/logs/properties").get({ headers });
    assert.deepEqual(refusalOf(none), ["404", "LogsPropertiesNotFound"]);
});

test("several slots: rank, reward by slot, activate", async () => {
    const headers = inTenant;
    const slots = [{ id: "main", features: [{ size: "large" }], excludedActions: ["ice"], baselineAction: "pasta" }, { id: "side", baselineAction: "juice" }];
    const body: rest.MultiSlotRankRequest = { eventId: "slots", contextFeatures: [{ user: { age: "young" } }], actions, slots, deferActivation: true };
    const ranked = await preview.path("/multislot/rank").post({ headers, body });
    assert.equal(ranked.status, "201");
    const told = ranked.body as rest.MultiSlotRankResponseOutput;
    assert.equal(told.eventId, "slots");
    assert.deepEqual(told.slots!.map((slot) => slot.id), ["main", "side"]);
    const shown = told.slots!.map((slot) => slot.rewardActionId!);
    assert.ok(new Set(shown).size === 2 && shown[0] !== "ice");
    assert.equal((await preview.path("/multislot/events/{eventId}/activate", "slots").post({ headers })).status, "204");
    const reward = { reward: [{ slotId: "side", value: 0.25 }, { slotId: "main", value: 1 }] };
    assert.equal((await preview.path("/multislot/events/{eventId}/reward", "slots").post({ headers, body: reward })).status, "204");
    assert.deepEqual((await of("rewarded", "slots")).map((event) => [event.arm, event.reward]), [[shown[1], 0.25], [shown[0], 1]]);
});
