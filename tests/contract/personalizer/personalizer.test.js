// Both clients of Azure Personalizer that npm has, as they are, against a live server: what code that called that service would run.
import assert from "node:assert/strict";
import test from "node:test";
import { ApiKeyCredentials } from "@azure/ms-rest-js";
import { PersonalizerClient } from "@azure/cognitiveservices-personalizer";
import personalizer from "@azure-rest/ai-personalizer";

const baseUrl = process.env.LAPLACED_URL;

async function call(method, path, body, headers = {}) {
    const answer = await fetch(baseUrl + path, { method, headers: { "Content-Type": "application/json", ...headers }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text && !path.endsWith("/events") ? JSON.parse(text) : text;
}

// The tenant is the key's. Where keys are asked for, whoever makes them shows the administrator's.
const tenant = "menu";
await call("PUT", `/tenants/${tenant}`, { algorithm: "random", features: { mapping: "names-1", dim: 32 } });
const inTenant = { "Laplaced-Tenant": tenant };

const client = new PersonalizerClient(new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": "not-asked-for", ...inTenant } }), baseUrl);
const rest = personalizer.default !== undefined ? personalizer.default : personalizer;
const preview = rest(baseUrl, { key: "not-asked-for" }, { allowInsecureConnection: true });

const events = async () => (await call("GET", `/tenants/${tenant}/events`)).trim().split("\n").map((line) => JSON.parse(line));
const of = async (type, decision) => (await events()).filter((event) => event.type === type && event.decision === decision);
const learned = async (decision) => (await of("rewarded", decision)).map((event) => event.reward);

const actions = ["pasta", "ice", "juice", "salad"].map((id) => ({ id, features: [{ kitchen: { name: id } }] }));
const request = (more) => ({ contextFeatures: [{ user: { age: "young" } }, { device: { mobile: true } }], actions, ...more });

test("v1.0: rank, reward", async () => {
    const ranked = await client.rank(request({ eventId: "one" }));
    assert.equal(ranked.eventId, "one");
    assert.ok(actions.some((action) => action.id === ranked.rewardActionId));
    assert.deepEqual(ranked.ranking, actions.map((action) => ({ id: action.id, probability: 0.25 })));
    await client.events.reward("one", { value: 0.5 });
    assert.deepEqual(await learned("one"), [0.5]);
    const [line] = await of("decided", "one");
    assert.deepEqual([line.arm, line.propensity], [ranked.rewardActionId, 0.25]);
    assert.equal(line.context.length, 32);
    assert.ok(line.context.some((x) => x !== 0) && line.features.some((x) => x !== 0));
});

test("an event without an id gets one", async () => {
    const ranked = await client.rank(request());
    await client.events.reward(ranked.eventId, { value: -1 });
    assert.deepEqual(await learned(ranked.eventId), [-1]);
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
        assert.deepEqual(ranked.ranking[1], { id: "ice", probability: 0 });
        assert.ok(ranked.ranking.every((action, i) => i === 1 || Math.abs(action.probability - 1 / 3) < 1e-12));
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
    assert.equal(line.reward, -0.5);
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
    await assert.rejects(client.events.activate("unknown"), (error) => error.statusCode === 400 && error.body.error.code === "InvalidEventIdToActivate");
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
    const refused = async (body, target) =>
        assert.rejects(client.rank(body), (error) => {
            assert.equal(error.statusCode, 400);
            assert.equal(error.response.headers.get("x-ms-error-code"), "InvalidRankRequest");
            assert.deepEqual([error.body.error.code, error.body.error.target], ["InvalidRankRequest", target]);
            return true;
        });
    await refused({ contextFeatures: [], actions: Array.from({ length: 51 }, (_, i) => ({ id: `a${i}`, features: [] })) }, "/actions");
    await refused({ contextFeatures: [], actions: [{ id: "same", features: [] }, { id: "same", features: [] }] }, "/actions/1");
    await refused(request({ excludedActions: actions.map((action) => action.id) }), "/excludedActions");
    await refused({ contextFeatures: ["young"], actions }, "/contextFeatures/0");
    const answer = await fetch(`${baseUrl}/personalizer/v1.0/events/one/reward`, { method: "POST", headers: { "Content-Type": "application/json", ...inTenant }, body: '{"value":1.5}' });
    assert.equal(answer.status, 400);
    assert.equal((await answer.json()).error.code, "InvalidRewardRequest");
});

// --- the client of the preview -----------------------------------------------------------------------------------------

test("v1.1-preview.3: rank, activate, reward", async () => {
    const headers = inTenant;
    const ranked = await preview.path("/rank").post({ headers, body: request({ eventId: "preview", deferActivation: true }) });
    assert.equal(ranked.status, "201");
    assert.equal(ranked.body.eventId, "preview");
    const activated = await preview.path("/events/{eventId}/activate", "preview").post({ headers });
    assert.equal(activated.status, "204");
    const rewarded = await preview.path("/events/{eventId}/reward", "preview").post({ headers, body: { value: 1 } });
    assert.equal(rewarded.status, "204");
    assert.equal(rewarded.headers["laplaced-reward"], "learned");
    assert.deepEqual(await learned("preview"), [1]);
});

test("the service configuration goes there and back", async () => {
    const headers = inTenant;
    const wanted = { rewardWaitTime: "PT1H30M", defaultReward: 0.25, rewardAggregation: "sum", explorationPercentage: 0.2, modelExportFrequency: "PT5M", logRetentionDays: 30 };
    const put = await preview.path("/configurations/service").put({ headers, body: wanted });
    assert.equal(put.status, "200");
    const got = await preview.path("/configurations/service").get({ headers });
    assert.deepEqual(got.body, put.body);
    assert.deepEqual(got.body, { ...wanted, rewardWaitTime: "PT5400S", modelExportFrequency: "PT1S", logMirrorEnabled: false, learningMode: "Online", isAutoOptimizationEnabled: false });
    const { configuration } = await call("GET", `/tenants/${tenant}`);
    assert.deepEqual([configuration.reward_window_s, configuration.default_reward, configuration.aggregation, configuration.rule.epsilon, configuration.retention.age_s], [5400, 0.25, "sum", 0.2, 2592000]);
    for (const [member, value] of [["rewardWaitTime", "1h"], ["rewardWaitTime", "PT1S"], ["rewardWaitTime", "P3D"], ["defaultReward", 2], ["rewardAggregation", "last"], ["explorationPercentage", -0.1], ["logRetentionDays", 0.5], ["learningMode", "Sometimes"], ["isAutoOptimizationEnabled", true]]) {
        const refused = await preview.path("/configurations/service").put({ headers, body: { ...wanted, [member]: value } });
        assert.equal(refused.status, "400");
        assert.deepEqual([refused.body.error.code, refused.body.error.target], ["InvalidServiceConfiguration", `/${member}`]);
    }
    assert.deepEqual((await preview.path("/configurations/service").get({ headers })).body, put.body);
});

test("the modes of learning: the first action for everybody, and nothing learned", async () => {
    const headers = inTenant;
    const put = (body) => preview.path("/configurations/service").put({ headers, body });
    const refused = await put({ learningMode: "Apprentice", defaultReward: 0.75 });
    assert.deepEqual([refused.status, refused.body.error.code], ["400", "InvalidLearningModeServiceConfiguration"]);
    const mirrored = await put({ logMirrorEnabled: true });
    assert.deepEqual([mirrored.status, mirrored.body.error.code, mirrored.headers["x-ms-error-code"]], ["400", "InvalidSasUri", "InvalidSasUri"]);
    assert.equal((await put({ learningMode: "Apprentice" })).body.learningMode, "Apprentice");
    for (const first of [0, 2]) {
        const turned = [...actions.slice(first), ...actions.slice(0, first)];
        assert.equal((await client.rank(request({ actions: turned }))).rewardActionId, turned[0].id);
        assert.equal((await client.rank(request({ actions: turned, excludedActions: [turned[0].id] }))).rewardActionId, turned[1].id);
    }
    assert.ok((await call("GET", `/tenants/${tenant}/stats`)).match.decisions >= 4);
    assert.equal((await put({ learningMode: "LoggingOnly" })).body.learningMode, "LoggingOnly");
    const before = (await call("GET", `/tenants/${tenant}/model`)).dictionary;
    await client.rank(request({ eventId: "logged" }));
    await client.events.reward("logged", { value: 1 });
    assert.deepEqual(await learned("logged"), [1]);
    assert.deepEqual((await call("GET", `/tenants/${tenant}/model`)).dictionary, before);
    assert.equal((await put({ learningMode: "Online" })).body.learningMode, "Online");
});

test("the model: properties, and learning anew", async () => {
    const headers = inTenant;
    const properties = await preview.path("/model/properties").get({ headers });
    assert.equal(properties.status, "200");
    const lines = await events();
    assert.deepEqual(properties.body, { creationTime: lines[0].at, lastModifiedTime: lines.at(-1).at });
    const reset = await preview.path("/model").delete({ headers });
    assert.equal(reset.status, "204");
    assert.equal((await events()).at(-1).type, "forgotten");
    assert.deepEqual((await call("GET", `/tenants/${tenant}/model`)).dictionary, []);
});

test("the logs: properties, and deletion", async () => {
    const headers = inTenant;
    const properties = await preview.path("/logs/properties").get({ headers });
    assert.equal(properties.status, "200");
    assert.ok(properties.body.dateRange.from <= properties.body.dateRange.to);
    const gone = await preview.path("/logs").delete({ headers });
    assert.equal(gone.status, "204");
    const none = await preview.path("/logs/properties").get({ headers });
    assert.deepEqual([none.status, none.body.error.code], ["404", "LogsPropertiesNotFound"]);
});

test("what is not offered is told by name", async () => {
    const headers = inTenant;
    for (const answer of [await preview.path("/configurations/policy").get({ headers }), await preview.path("/evaluations").get({ headers }), await preview.path("/model").get({ headers })])
        assert.deepEqual([answer.status, answer.body.error.code], ["501", "NotImplemented"]);
});
