// The client at a live server: the three recipes of the README, refusals as typed errors, and retries that lose and double nothing, across kill -9 as well.
// LAPLACED_URL is a server without keys, LAPLACED_BIN the program. tests/contract/run.sh sets both.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { BadRequest, Client, Conflict, ConnectionFailed, Gone, LaplacedError, NotFound, NotReady, Problem, TooManyRequests, type Decision, type LogEvent } from "../src/index.js";
import { parseRetryAfter, sleep, waitAfter } from "../src/retry.js";

const url = process.env["LAPLACED_URL"] ?? "";
const client = new Client(url);

async function caught(promise: Promise<unknown>): Promise<unknown> {
    return promise.then(() => assert.fail("nothing was refused"), (fault: unknown) => fault);
}

async function all<T>(some: AsyncIterable<T>): Promise<T[]> {
    const found: T[] = [];
    for await (const one of some) found.push(one);
    return found;
}

// ---- the three recipes of the README

test("recipe: routing of three variants with a holdout", async () => {
    const tenant = "ts-page";
    await client.putTenant(tenant, { algorithm: "ts", rule: { epsilon: 0.2 }, reward_window_s: 2, log_candidates: true,
        routing: { holdout: { share: 0.1, baseline: { arm: "red" } }, sticky: { ttl_s: 86400 } } });
    const made: Decision[] = [];
    const sold = new Map<string, number>(), shown = new Map<string, number>();
    for (let v = 1; v <= 150; v++) {
        const decision = await client.select({ user: `u${v}`, candidates: ["red", "green", "blue"], decision: `v${v}` }, { tenant });
        made.push(decision);
        shown.set(decision.arm, (shown.get(decision.arm) ?? 0) + 1);
        if (v % (decision.arm === "green" ? 2 : 10) === 0) {
            sold.set(decision.arm, (sold.get(decision.arm) ?? 0) + 1);
            assert.deepEqual(await client.reward({ decision: `v${v}`, reward: 1 }, { tenant }), { applied: true });
        }
    }
    const held = made.filter((d) => d.route === "holdout");
    assert.ok(held.length > 0 && held.length < 50 && held.every((d) => d.arm === "red"));
    for (const end = performance.now() + 20_000; (await client.stats(tenant)).pending > 0; await sleep(100)) assert.ok(performance.now() < end);
    const stats = await client.stats(tenant);
    for (const { arm, mean_reward } of stats.arms) assert.ok(Math.abs(mean_reward! - (sold.get(arm) ?? 0) / shown.get(arm)!) < 1e-12, arm);
    await client.stop(tenant);
    assert.equal((await client.select({ user: "new", candidates: ["red", "green", "blue"] }, { tenant })).arm, "red");
    await client.start(tenant);
});

test("recipe: recommendations along a graph", async () => {
    const tenant = "ts-films";
    await client.putTenant(tenant, { algorithm: "laplaced-kors", reward_window_s: 2, confidence: { beta: 0.5 } });
    const graph = await client.putGraph(tenant, [["ann", "bob"], ["bob", "cat"], ["dan", "eve"], ["eve", "fay"]]);
    assert.deepEqual([graph.users, graph.edges], [6, 4]);
    await client.putArms(tenant, Array.from({ length: 20 }, (_, i) => `film${String(i + 1).padStart(2, "0")}`));
    const likes = [["ann", "03"], ["ann", "07"], ["ann", "11"], ["dan", "05"], ["dan", "12"], ["dan", "19"]] as const;
    await Promise.all(likes.map(([user, film]) => client.observe({ user, arm: `film${film}`, reward: 1 }, { tenant })));
    const bob = await client.select({ user: "bob", top: 3, explain: true, decision: "bob1" }, { tenant });
    const best = [...bob.ranking].sort((a, b) => b.mean! - a.mean!).slice(0, 3).map((r) => r.arm);
    assert.deepEqual(best.sort(), ["film03", "film07", "film11"]); // ann's: bob is her friend
    assert.deepEqual(await client.reward({ decision: "bob1", reward: 1 }, { tenant }), { applied: true });
});

test("recipe: replay and evaluation of the log", async () => {
    const tenant = "ts-log";
    await client.putTenant(tenant, { algorithm: "ts", rule: { epsilon: 0.2 }, default_reward: null, log_candidates: true });
    for (let v = 0; v < 60; v++) {
        const decision = await client.select({ user: `u${v % 7}`, candidates: ["red", "green"] }, { tenant });
        await client.reward({ decision: decision.decision, reward: decision.arm === "green" && v % 2 ? 1 : 0 }, { tenant });
    }
    const events: LogEvent[] = await all(client.events(tenant, { page: 7 }));
    assert.deepEqual(events.map((e) => e.seq), events.map((_, i) => i + 1));
    const rewards = new Map(events.flatMap((e) => (e.type === "rewarded" ? [[e.decision, e.reward] as const] : [])));
    const decided = events.flatMap((e) => (e.type === "decided" ? [e] : []));
    const ips = decided.reduce((sum, e) => sum + (rewards.get(e.decision)! * 0.5) / e.propensity, 0) / 60;
    const report = await client.replay(tenant, { algorithm: "random" });
    assert.equal((await client.replay(tenant, { algorithm: "random" }, events)).model.digest, report.model.digest);
    assert.ok(Math.abs(report.policy.ips.estimate! - ips) < 1e-9);
    // @ts-expect-error the contract lists the presets
    const refused = await caught(client.replay(tenant, { algorithm: "oracle" }));
    assert.ok(refused instanceof Problem);
    assert.deepEqual(refused.pointers, ["/0/configuration/algorithm"]);
});

// ---- slots

test("slots are filled by one decision, and each has its own reward", async () => {
    const tenant = "ts-slots";
    await client.putTenant(tenant, { algorithm: "random", default_reward: null });
    const slots = [{ id: "top" }, { id: "left", exclude: ["a"] }, { id: "right" }];
    const page = await client.select({ user: "u", candidates: ["a", "b", "c", "d"], slots }, { tenant });
    assert.deepEqual(page.slots!.map((slot) => slot.id), ["top", "left", "right"]);
    const arms = page.slots!.map((slot) => slot.arm);
    assert.equal(new Set(arms).size, 3);
    assert.notEqual(arms[1], "a");
    for (const slot of page.slots!) assert.deepEqual(slot.ranking.map((r) => [r.arm, r.propensity]), [[slot.arm, slot.propensity]]);
    assert.deepEqual(await client.reward({ decision: page.decision, slot: "left", reward: 0.5 }, { tenant }), { applied: true });
    const rewards = client.rewards({ tenant });
    const right = rewards.add({ decision: page.decision, slot: "right", reward: 2 }), byUser = rewards.add({ user: "u", slot: "top", reward: 3 });
    assert.equal(((await caught(rewards.add({ decision: page.decision, slot: "foot", reward: 1 }))) as Problem).kind, "no-arm");
    assert.deepEqual([await right, (await byUser).decisions], [{ applied: true }, [page.decision]]);
    const told = (await all(client.events(tenant))).flatMap((e) => (e.type === "rewarded" ? [[e.arm, e.reward]] : []));
    assert.deepEqual(told, [[arms[1], 0.5], [arms[2], 2], [arms[0], 3]]);
    const refused = await caught(client.select({ user: "u", candidates: ["a"], slots: [{ id: "1" }, { id: "2" }] }, { tenant }));
    assert.ok(refused instanceof BadRequest);
    assert.deepEqual(refused.pointers, ["/slots/1"]);
});

// ---- refusals

test("a refusal is an error of its kind that names each fault", async () => {
    const tenant = "ts-errors";
    await client.putTenant(tenant, { algorithm: "random", reward_window_s: 0.2 });
    const bad = await caught(client.select({ user: "u", candidates: ["a", ""], top: 0 }, { tenant }));
    assert.ok(bad instanceof BadRequest);
    assert.deepEqual(bad.pointers.sort(), ["/candidates/1", "/top"]);
    assert.match(bad.request, /^[0-9a-f]{32}$/);
    assert.ok(bad.message.includes("/top") && bad.message.includes(bad.request) && bad.name === "BadRequest");
    const unknown = await caught(client.reward({ decision: "nobody's", reward: 1 }, { tenant }));
    assert.ok(unknown instanceof NotFound && unknown.kind === "no-decision");
    await client.select({ user: "u", candidates: ["a"], decision: "d1" }, { tenant });
    assert.ok((await caught(client.select({ user: "other", candidates: ["a"], decision: "d1" }, { tenant }))) instanceof Conflict);
    await sleep(500);
    assert.ok((await caught(client.reward({ decision: "d1", reward: 1 }, { tenant }))) instanceof Gone);
});

// ---- retries, at a server that answers what a test wants: a text, nothing and the end of the connection (null), or silence (a number of ms)

type Step = string | null | number;

class Scripted {
    readonly requests: string[] = [];
    readonly times: number[] = [];
    readonly #sockets = new Set<Socket>();
    readonly #server: Server;

    constructor(readonly steps: Step[]) {
        this.#server = createServer((socket) => this.#serve(socket));
    }

    async listen(): Promise<string> {
        await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
        return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    }

    close(): void {
        this.#server.close();
        for (const socket of this.#sockets) socket.destroy();
    }

    #serve(socket: Socket): void {
        let text = "";
        this.#sockets.add(socket);
        socket.on("error", () => undefined);
        socket.on("data", (data) => {
            text += data.toString("latin1");
            for (;;) {
                const head = text.indexOf("\r\n\r\n");
                const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
                if (head < 0 || text.length < head + 4 + length) return;
                this.requests.push(text.slice(head + 4, head + 4 + length));
                this.times.push(performance.now());
                text = text.slice(head + 4 + length);
                const step = this.steps.shift();
                if (typeof step === "string") socket.write(step);
                else if (typeof step === "number") setTimeout(() => socket.destroy(), step);
                else socket.destroy();
            }
        });
    }
}

function answer(status: number, body: unknown, ...headers: string[]): string {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return [`HTTP/1.1 ${status} Words`, `Content-Length: ${text.length}`, ...headers, "", text].join("\r\n");
}

const decided = answer(200, { decision: "d", arm: "a", propensity: 1, ranking: [], model: {} });
const busy = { type: "/problems/busy", title: "Service Unavailable", status: 503, detail: "busy" };
const quick = { firstMs: 10, longestMs: 50 };

async function withScript(steps: Step[], run: (url: string, server: Scripted) => Promise<void>): Promise<void> {
    const server = new Scripted(steps);
    try {
        await run(await server.listen(), server);
    } finally {
        server.close();
    }
}

for (const [what, step] of [["no answer", null], ["503", answer(503, busy)], ["429", answer(429, busy)], ["502 of a proxy", answer(502, "<html>")]] as const)
    test(`a decision is asked for again under the same id after ${what}`, () => withScript([step, step, decided], async (to, server) => {
        assert.equal((await new Client(to, { retry: quick }).select({ user: "u" })).arm, "a");
        assert.equal(server.requests.length, 3);
        assert.equal(new Set(server.requests).size, 1);
        assert.match((JSON.parse(server.requests[0]!) as { decision: string }).decision, /^[0-9a-f]{32}$/);
    }));

test("Retry-After is obeyed", () => withScript([answer(503, busy, "Retry-After: 1"), decided], async (to, server) => {
    await new Client(to, { retry: quick }).select({ user: "u" });
    assert.ok(server.times[1]! - server.times[0]! >= 1000);
}));

test("a wait beyond the deadline is not begun", () => withScript([answer(429, busy, "Retry-After: 30"), decided], async (to, server) => {
    const began = performance.now();
    const refused = await caught(new Client(to).select({ user: "u" }, { timeoutMs: 5000 }));
    assert.ok(refused instanceof TooManyRequests && refused.retryAfter === 30);
    assert.ok(performance.now() - began < 2000 && server.requests.length === 1);
}));

test("a server that is silent is given up at the deadline", () => withScript([20000, 20000, 20000, 20000, 20000, 20000], async (to, server) => {
    const began = performance.now();
    assert.ok((await caught(new Client(to, { tryMs: 300, retry: quick }).select({ user: "u" }, { timeoutMs: 1000 }))) instanceof ConnectionFailed);
    const took = performance.now() - began;
    assert.ok(took > 900 && took < 2500 && server.requests.length >= 2, `${took} ms, ${server.requests.length} requests`);
}));

test("what may be done once is not sent twice, but after 503", () => withScript([null, answer(503, busy), answer(204, "")], async (to, server) => {
    const one = new Client(to, { retry: quick });
    assert.ok((await caught(one.deleteTenant("t"))) instanceof ConnectionFailed);
    assert.equal(server.requests.length, 1);
    await one.deleteTenant("t");
    assert.equal(server.requests.length, 3);
}));

test("a POST of one's own is sent twice only when the caller says so", () => withScript([null, null, answer(200, {}), null, answer(200, {}), answer(502, "")], async (to, server) => {
    const one = new Client(to, { retry: quick });
    assert.ok((await caught(one.call("POST", "/tenants/t/keys", { body: {} }))) instanceof ConnectionFailed);
    assert.equal(server.requests.length, 1);
    await one.call("POST", "/tenants/t/keys", { body: {}, mayRepeat: true });
    assert.equal(server.requests.length, 3);
    await one.call("PUT", "/tenants/t", { body: {} });
    assert.equal(server.requests.length, 5);
    assert.ok((await caught(one.text("POST", "/tenants/t/keys", { body: {} }))) instanceof Problem);
    assert.equal(server.requests.length, 6);
}));

const repeated: [string, unknown, (one: Client) => Promise<unknown>][] = [
    ["select", {}, (one) => one.select({ user: "u" })],
    ["reward", {}, (one) => one.reward({ decision: "d", reward: 1 })],
    ["rewardMany", [{ applied: true }], (one) => one.rewardMany([{ decision: "d", reward: 1 }])],
    ["activate", {}, (one) => one.activate("d")],
    ["observe", {}, (one) => one.observe({ user: "u", arm: "a", reward: 1 })],
    ["stop", {}, (one) => one.stop("t")],
    ["start", {}, (one) => one.start("t")],
    ["replay", { type: "report" }, (one) => one.replay("t", { algorithm: "random" })],
];
for (const [what, good, call] of repeated)
    test(`${what} is sent again, as the same request`, () => withScript([null, answer(200, good)], async (to, server) => {
        await call(new Client(to, { retry: quick }));
        assert.equal(server.requests.length, 2);
        assert.equal(server.requests[0], server.requests[1]);
    }));

test("a caller may leave", () => withScript([20000], async (to) => {
    const leaving = new AbortController();
    setTimeout(() => leaving.abort(new Error("enough")), 50);
    assert.equal(((await caught(new Client(to).select({ user: "u" }, { signal: leaving.signal }))) as Error).message, "enough");
}));

test("so many attempts and no more", () => withScript(Array<Step>(5).fill(answer(503, busy)), async (to, server) => {
    assert.ok((await caught(new Client(to, { retry: { ...quick, attempts: 3 } }).select({ user: "u" }))) instanceof NotReady);
    assert.equal(server.requests.length, 3);
}));

test("waits double and differ, and a date of a proxy is understood", () => {
    for (const [n, bound] of [[1, 100], [2, 200], [3, 400], [10, 1000]] as const) {
        const waits = Array.from({ length: 300 }, () => waitAfter({ firstMs: 100, longestMs: 1000 }, n, undefined));
        assert.ok(Math.max(...waits) <= bound && Math.max(...waits) > 0.9 * bound && Math.min(...waits) < 0.1 * bound);
    }
    assert.equal(parseRetryAfter("3"), 3);
    assert.equal(parseRetryAfter(null), undefined);
    const hour = parseRetryAfter(new Date(Date.now() + 3_600_000).toUTCString())!;
    assert.ok(hour > 3590 && hour <= 3600);
});

// ---- batches

test("rewards go in batches and each has its own answer", async () => {
    const tenant = "ts-batches";
    await client.putTenant(tenant, { algorithm: "random", aggregation: "sum" });
    await Promise.all(Array.from({ length: 200 }, (_, i) => client.select({ user: `u${i}`, candidates: ["a"], decision: `d${i}` }, { tenant })));
    let sent = 0;
    const counting = new Client(url, { fetch: (...args) => (sent++, fetch(...args)) });
    const rewards = counting.rewards({ tenant, most: 100 });
    const found = Array.from({ length: 200 }, (_, i) => rewards.add({ decision: `d${i}`, reward: 1 }));
    const lost = rewards.add({ decision: "nobody's", reward: 1 });
    const wrong = rewards.add({ decision: "d1", reward: 1, id: "x".repeat(200) });
    const user = rewards.add({ user: "u7", reward: 2, id: "checkout" });
    await rewards.flush();
    assert.deepEqual(await Promise.all(found), Array(200).fill({ applied: true }));
    assert.equal(((await caught(lost)) as Problem).kind, "no-decision");
    assert.ok((await caught(wrong)) instanceof BadRequest);
    assert.deepEqual((await user).decisions, ["d7"]);
    assert.ok(sent <= 5, `${sent} requests`);
    await assert.rejects(rewards.add({ decision: "d1", reward: NaN }), TypeError);
    const told = (await all(client.events(tenant))).flatMap((e) => (e.type === "rewarded" ? [e.reward] : []));
    assert.equal(told.reduce((a, b) => a + b, 0), 202);
});

test("rewards are given up at their deadline", () => withScript(Array<Step>(200).fill(answer(503, busy)), async (to) => {
    const rewards = new Client(to, { retry: quick }).rewards({ timeoutMs: 300 });
    const fault = await caught(rewards.add({ decision: "d", reward: 1 }));
    assert.ok(fault instanceof NotReady || fault instanceof ConnectionFailed, String(fault)); // the deadline may fall between an answer and the next try, or into one
}));

for (const body of [{}, [], [{ applied: true }], 7, "<html>"])
    test(`rewards that are answered by ${JSON.stringify(body)} are not taken for done`, () => withScript([answer(200, body)], async (to) => {
        const rewards = new Client(to, { retry: { attempts: 1 } }).rewards({ most: 2 });
        const made = [1, 2].map((reward) => caught(rewards.add({ decision: "d", reward })));
        await rewards.flush();
        for (const fault of await Promise.all(made)) assert.ok(fault instanceof LaplacedError, String(fault));
    }));

test("rewards do not wait for a Retry-After beyond their deadline", () => withScript([answer(503, busy, "Retry-After: 25"), answer(200, [{ applied: true }])], async (to, server) => {
    const began = performance.now();
    const rewards = new Client(to, { retry: quick }).rewards({ timeoutMs: 3000, waitMs: 10 });
    const first = rewards.add({ decision: "d", reward: 1 });
    await rewards.flush();
    const told = await caught(first);
    assert.ok(told instanceof NotReady && told.retryAfter === 25, String(told));
    assert.ok((await caught(rewards.add({ decision: "e", reward: 1 }))) instanceof NotReady); // of one that is added meanwhile, too
    assert.ok(performance.now() - began < 2000 && rewards.size === 0);
    assert.equal(server.requests.length, 1);
}));

test("rewards that have the time wait as long as Retry-After says, and others do not", () => withScript(
    [answer(503, busy, "Retry-After: 2"), answer(503, busy, "Retry-After: 2"), answer(200, [{ applied: true }])], async (to, server) => {
        const began = performance.now();
        const rewards = new Client(to, { retry: { firstMs: 10, attempts: 1 } }).rewards({ timeoutMs: 3800, waitMs: 10 });
        const first = rewards.add({ decision: "d", reward: 1 });
        while (server.times.length === 0) await sleep(10);
        await sleep(1000);
        const second = rewards.add({ decision: "e", reward: 1 });
        assert.ok((await caught(first)) instanceof NotReady && performance.now() - began < 3000);
        assert.deepEqual(await second, { applied: true });
        assert.deepEqual(server.requests.map((body) => (JSON.parse(body) as unknown[]).length), [1, 2, 1]);
        assert.ok(server.times[1]! - server.times[0]! >= 1990 && server.times[2]! - server.times[1]! >= 1990, server.times.join());
    }));

// ---- kill -9 in the middle

function start(data: string, listen: string): Promise<[ChildProcess, string]> {
    const child = spawn(process.env["LAPLACED_BIN"]!, ["--data", data, "--listen", listen], { stdio: ["ignore", "pipe", "ignore"] });
    return new Promise((resolve, reject) => {
        let text = "";
        child.on("exit", () => reject(new Error("the server ended")));
        child.stdout!.on("data", (part: Buffer) => {
            const found = /http:\/\/(\S+)/.exec((text += part.toString()));
            if (found) resolve([child, found[1]!]);
        });
    });
}

async function kill(child: ChildProcess): Promise<void> {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
}

test("kills in the middle of a run lose and double nothing", async () => {
    const folder = mkdtempSync(join(tmpdir(), "laplaced-"));
    let [child, address] = await start(join(folder, "data"), "127.0.0.1:0");
    try {
        const one = new Client(`http://${address}`, { tenant: "shop", timeoutMs: 60_000, retry: { longestMs: 500 } });
        await one.putTenant("shop", { algorithm: "random", aggregation: "sum", default_reward: null });
        const made: Decision[] = [], batched: Promise<unknown>[] = [];
        const rewards = one.rewards({ waitMs: 20 });
        let isOver = false;
        const run = async (k: number): Promise<void> => {
            while (!isOver) {
                const decision = await one.select({ user: `u${k}`, candidates: ["a", "b"] });
                await one.reward({ decision: decision.decision, reward: 1 });
                batched.push(rewards.add({ decision: decision.decision, reward: 0.5 }));
                made.push(decision);
            }
        };
        const runs = [0, 1, 2, 3].map(run);
        for (let n = 0; n < 4; n++) {
            for (const wanted = made.length + 40, end = performance.now() + 60_000; made.length < wanted; await sleep(10)) assert.ok(performance.now() < end);
            if (n === 3) break;
            await kill(child);
            [child] = await start(join(folder, "data"), address);
        }
        isOver = true;
        await Promise.all(runs);
        await rewards.flush();
        await Promise.all(batched);
        const events = await all(one.events("shop"));
        const arms = new Map(events.flatMap((e) => (e.type === "decided" ? [[e.decision, e.arm] as const] : [])));
        assert.equal(events.filter((e) => e.type === "decided").length, made.length);
        assert.equal(arms.size, made.length);
        for (const { decision, arm } of made) assert.equal(arms.get(decision), arm);
        const earned = events.flatMap((e) => (e.type === "rewarded" ? [`${e.decision} ${e.reward}`] : [])).sort();
        assert.deepEqual(earned, made.flatMap((d) => [`${d.decision} 1`, `${d.decision} 0.5`]).sort());
    } finally {
        await kill(child);
        rmSync(folder, { recursive: true });
    }
});
