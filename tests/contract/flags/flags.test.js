// Both OFREP providers of npm, as they are, against a live server: what a team that has OpenFeature already would run.
import assert from "node:assert/strict";
import test from "node:test";
import { OpenFeature as Server } from "@openfeature/server-sdk";
import { OFREPProvider } from "@openfeature/ofrep-provider";
import { OpenFeature as Web } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const baseUrl = process.env.LAPLACED_URL;

async function call(method, path, body, headers = {}) {
    const answer = await fetch(baseUrl + path, { method, headers: { "Content-Type": "application/json", ...headers }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text && !path.endsWith("/events") ? JSON.parse(text) : text;
}

async function make(flag, arms, routing = { sticky: { ttl_s: 3600 } }) {
    await call("PUT", `/tenants/${flag}`, { algorithm: "random", routing });
    await call("PUT", `/tenants/${flag}/arms`, arms);
}

async function decided(flag) {
    return (await call("GET", `/tenants/${flag}/events`)).split("\n").filter((line) => line.includes('"decided"')).map((line) => JSON.parse(line));
}

await make("color", [{ id: "red", value: "#f00" }, { id: "blue", value: "#00f" }]);
await make("checkout", [{ id: "on", value: true }]);
await make("size", [{ id: "large", value: 18.5 }]);
await make("page", [{ id: "calm", value: { title: "Hello", tags: ["a", "b"] } }]);
await make("plain", ["old", "new"]);
await make("german", [{ id: "de", value: 1, eligibility: { allow: { country: ["de"] } } }]);

// --- the provider of servers: one request an evaluation -----------------------------------------------------------------

await Server.setProviderAndWait(new OFREPProvider({ baseUrl }));
const client = Server.getClient();
const ann = { targetingKey: "ann" };

test("values of every type arrive as they were put", async () => {
    assert.ok(["#f00", "#00f"].includes(await client.getStringValue("color", "none", ann)));
    assert.equal(await client.getBooleanValue("checkout", false, ann), true);
    assert.equal(await client.getNumberValue("size", 0, ann), 18.5);
    assert.deepEqual(await client.getObjectValue("page", {}, ann), { title: "Hello", tags: ["a", "b"] });
    assert.ok(["old", "new"].includes(await client.getStringValue("plain", "none", ann)));
});

test("details tell variant, reason, decision and propensity", async () => {
    const details = await client.getStringDetails("color", "none", { targetingKey: "bob" });
    assert.equal(details.reason, "SPLIT");
    assert.equal(details.value, { red: "#f00", blue: "#00f" }[details.variant]);
    assert.equal(details.flagMetadata.propensity, 0.5);
    const line = (await decided("color")).at(-1);
    assert.deepEqual([line.decision, line.user, line.arm], [details.flagMetadata.decision, "bob", details.variant]);
    assert.deepEqual(await call("POST", "/reward", { decision: details.flagMetadata.decision, reward: 1 }, { "Laplaced-Tenant": "color" }), { applied: true });
});

test("a user keeps the variant", async () => {
    const first = await client.getStringDetails("color", "none", { targetingKey: "cat" });
    for (let i = 0; i < 5; i++) assert.equal((await client.getStringDetails("color", "none", { targetingKey: "cat" })).variant, first.variant);
});

test("attributes of the context decide who is shown what", async () => {
    assert.equal((await client.getNumberDetails("german", 0, { ...ann, country: "de" })).reason, "TARGETING_MATCH");
});

test("refusals have the codes of OpenFeature, and the code's own default", async () => {
    const codes = async (flag, context) => {
        const details = await client.getStringDetails(flag, "default", context);
        assert.equal(details.value, "default");
        return details.errorCode;
    };
    assert.equal(await codes("color", {}), "TARGETING_KEY_MISSING");
    assert.equal(await codes("color", { targetingKey: "x".repeat(257) }), "INVALID_CONTEXT");
    assert.equal(await codes("nothing", ann), "FLAG_NOT_FOUND");
    assert.equal(await codes("a/b c", ann), "FLAG_NOT_FOUND");
    assert.equal(await codes("size", ann), "TYPE_MISMATCH");
});

test("a tenant that is stopped is disabled, with its baseline's value", async () => {
    await call("PATCH", "/tenants/plain", { routing: { holdout: { share: 0, baseline: { arm: "old" } }, stopped: true } });
    const details = await client.getStringDetails("plain", "none", { targetingKey: "dan" });
    assert.deepEqual([details.value, details.reason], ["old", "DISABLED"]);
    await call("PATCH", "/tenants/plain", { routing: { stopped: false } });
});

// --- the provider of browsers: all flags of one user at once --------------------------------------------------------------

test("a browser's client gets all flags at once, and asks again only for what is new", async () => {
    await Web.setContext({ targetingKey: "eve", country: "de" });
    const provider = new OFREPWebProvider({ baseUrl, pollInterval: -1, cacheMode: "disabled" });
    await Web.setProviderAndWait(provider);
    const web = Web.getClient();
    const color = web.getStringDetails("color", "none");
    assert.equal(color.value, { red: "#f00", blue: "#00f" }[color.variant]);
    assert.equal(web.getBooleanValue("checkout", false), true);
    assert.equal(web.getNumberValue("size", 0), 18.5);
    assert.deepEqual(web.getObjectValue("page", {}), { title: "Hello", tags: ["a", "b"] });
    assert.equal(web.getNumberValue("german", 0), 1);
    assert.equal(web.getStringValue("nothing", "mine"), "mine");
    const line = (await decided("color")).at(-1);
    assert.deepEqual([line.decision, line.user, line.deferred], [color.flagMetadata.decision, "eve", true]);

    const before = (await decided("color")).length;
    await Web.setContext({ targetingKey: "eve", country: "de", page: 2 });
    assert.equal((await decided("color")).length, before); // 304
    assert.equal(web.getStringDetails("color", "none").variant, color.variant);
    await Web.setContext({ targetingKey: "fay" });
    assert.equal((await decided("color")).length, before + 1);
    assert.equal(web.getNumberValue("german", 0), 0);
    await Web.close();
});

test("a page of a named origin is let in, as a browser would ask", async () => {
    const asked = await fetch(`${baseUrl}/ofrep/v1/evaluate/flags`, { method: "OPTIONS", headers: { Origin: "https://shop.example", "Access-Control-Request-Method": "POST" } });
    assert.equal(asked.status, 204);
    assert.equal(asked.headers.get("access-control-allow-origin"), "https://shop.example");
});
