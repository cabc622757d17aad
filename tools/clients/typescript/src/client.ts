// The client. Each method is one request, sent again as often as it takes until its deadline; with ids of its own where the caller gives none, so that sending
// it again is safe.
import type { components } from "./contract.js";
import { ConnectionFailed, LaplacedError, Problem, problemOf, problemOfAnswer } from "./errors.js";
import { nothingDone, parseRetryAfter, perhapsDone, sleep, waitAfter, type Retry } from "./retry.js";
import { Rewards, type RewardsOptions } from "./rewards.js";

type Schemas = components["schemas"];
export type Decision = Schemas["Decision"];
export type RewardResult = Schemas["RewardResult"];
export type Configuration = Schemas["Configuration"];
export type LogEvent = Schemas["Event"];
export type Reward = Schemas["Reward"] | Schemas["UserReward"];
export type ReplayReport = Schemas["ReplayReport"];

export interface Options {
    /** Of `Authorization: Bearer`. */
    key?: string;
    /** The tenant that is meant where a call names none. */
    tenant?: string;
    /** A request's deadline, with all of its tries. */
    timeoutMs?: number;
    /** How long one try may take. */
    tryMs?: number;
    retry?: Retry;
    /** Another `fetch`, as of a test or a proxy. */
    fetch?: typeof fetch;
}

export interface CallOptions {
    tenant?: string | undefined;
    timeoutMs?: number | undefined;
    /** Ends the call early, whatever has become of the request. */
    signal?: AbortSignal | undefined;
}

export interface RequestOptions extends CallOptions {
    /** A text goes as it is, anything else as JSON. */
    body?: unknown;
    contentType?: string;
    query?: Record<string, string | number>;
    /** Whether it is sent again when it is not known what became of it; left out, a POST is not, anything else is. After 429 and 503, which have changed nothing, any request is. */
    mayRepeat?: boolean;
    tryMs?: number;
}

type Attempt = { text: string } | { fault: LaplacedError; again: boolean; retryAfter?: number | undefined };

export const newId = (): string => globalThis.crypto?.randomUUID?.().replaceAll("-", "") ?? Array.from({ length: 32 }, () => Math.floor(Math.random() * 16).toString(16)).join("");

function pathOf(tenant: string, ...parts: string[]): string {
    return ["/tenants", ...[tenant, ...parts].map(encodeURIComponent)].join("/");
}

function lines<T>(text: string): T[] {
    return text.split("\n").filter((line) => line.trim() !== "").map((line) => JSON.parse(line) as T);
}

export class Client {
    readonly #url: string;
    readonly #options: Options;

    constructor(url: string, options: Options = {}) {
        if (!/^https?:\/\/[^/?#]+[^?#]*$/.test(url)) throw new TypeError(`not the address of a server: ${url}`);
        this.#url = url.replace(/\/+$/, "");
        this.#options = options;
    }

    // ---- decisions

    /** Which arm this user gets now. `decision` is the decision's id, made here when it is left out. */
    select(request: Schemas["SelectRequest"], options?: CallOptions): Promise<Decision> {
        return this.call("POST", "/select", { ...options, mayRepeat: true, body: { ...request, decision: request.decision ?? newId() } });
    }

    /** What a decision has earned, or the last one that a `user` was shown. `id` is the reward's, made here when it is left out: one call is learned once. */
    reward(reward: Reward, options?: CallOptions): Promise<RewardResult> {
        return this.call("POST", "/reward", { ...options, mayRepeat: true, body: { ...reward, id: reward.id ?? newId() } });
    }

    /** At most 1,000 rewards, each answered in its place. What lacks an `id` gets one. */
    async rewardMany(rewards: readonly Reward[], options?: CallOptions): Promise<(RewardResult | Problem)[]> {
        if (rewards.length < 1 || rewards.length > 1000) throw new RangeError(`1 to 1000 rewards at a time, not ${rewards.length}`);
        const body = rewards.map((reward) => ({ ...reward, id: reward.id ?? newId() }));
        const results = await this.call<(RewardResult | Schemas["RewardRefusal"])[]>("POST", "/reward", { ...options, mayRepeat: true, body });
        if (!Array.isArray(results) || results.length !== body.length) throw new ConnectionFailed(`POST /reward: the answer is not one of ${body.length} results`);
        return results.map((result) => ("status" in result ? problemOf(result.status, result) : result));
    }

    /** Rewards in batches. */
    rewards(options: RewardsOptions = {}): Rewards {
        const retry = this.#options.retry ?? {};
        return new Rewards((rewards, timeoutMs) => this.rewardMany(rewards, { tenant: options.tenant, timeoutMs }), retry, options);
    }

    /** A deferred decision was shown. */
    activate(decision: string, options?: CallOptions): Promise<Schemas["ActivateResult"]> {
        return this.call("POST", "/activate", { ...options, mayRepeat: true, body: { decision } });
    }

    /** A reward without a decision of this server. */
    observe(observation: Schemas["Observation"], options?: CallOptions): Promise<Schemas["ObserveResult"]> {
        return this.call("POST", "/observe", { ...options, mayRepeat: true, body: { ...observation, id: observation.id ?? newId() } });
    }

    // ---- tenants

    putTenant(tenant: string, configuration: Configuration, options?: CallOptions): Promise<Schemas["Tenant"]> {
        return this.call("PUT", pathOf(tenant), { ...options, body: configuration });
    }

    /** A merge patch says how fields shall be, so it may be sent twice. One with a `version` is not: the second time it would be a conflict. */
    patchTenant(tenant: string, patch: Schemas["ConfigurationPatch"], options?: CallOptions): Promise<Schemas["Tenant"]> {
        return this.call("PATCH", pathOf(tenant), { ...options, body: patch, contentType: "application/merge-patch+json", mayRepeat: !("version" in patch) });
    }

    getTenant(tenant: string, options?: CallOptions): Promise<Schemas["Tenant"]> {
        return this.call("GET", pathOf(tenant), options);
    }

    async deleteTenant(tenant: string, options?: CallOptions): Promise<void> {
        await this.call("DELETE", pathOf(tenant), { ...options, mayRepeat: false });
    }

    putGraph(tenant: string, edges: readonly (readonly [string, string] | readonly [string, string, number])[], options?: CallOptions): Promise<Schemas["GraphSummary"]> {
        return this.call("PUT", pathOf(tenant, "graph"), { ...options, body: { edges } });
    }

    putArms(tenant: string, arms: readonly (string | Schemas["CatalogueArm"])[], options?: CallOptions): Promise<{ arms: number; active: number }> {
        return this.call("PUT", pathOf(tenant, "arms"), { ...options, body: { arms: arms.map((arm) => (typeof arm === "string" ? { id: arm } : arm)) } });
    }

    /** Everybody gets the baseline. */
    stop(tenant: string, options?: CallOptions): Promise<unknown> {
        return this.call("POST", pathOf(tenant, "stop"), { ...options, mayRepeat: true });
    }

    start(tenant: string, options?: CallOptions): Promise<unknown> {
        return this.call("POST", pathOf(tenant, "start"), { ...options, mayRepeat: true });
    }

    // ---- what happened

    stats(tenant: string, options?: CallOptions): Promise<Schemas["Stats"]> {
        return this.call("GET", pathOf(tenant, "stats"), options);
    }

    model(tenant: string, options?: CallOptions): Promise<Schemas["Model"]> {
        return this.call("GET", pathOf(tenant, "model"), options);
    }

    /** The log's events behind `after`, in their order, to the end that it has by then. */
    async *events(tenant: string, { after = 0, page = 10000, ...options }: CallOptions & { after?: number; page?: number } = {}): AsyncGenerator<LogEvent, void> {
        for (;;) {
            const found = lines<LogEvent>(await this.text("GET", pathOf(tenant, "events"), { ...options, query: { after, limit: page } }));
            if (found.length === 0) return;
            yield* found;
            after = found[found.length - 1]!.seq;
        }
    }

    /** What another configuration would have learned and earned on a log: the tenant's own, or `events`. */
    async replay(tenant: string, configuration: Configuration, events?: Iterable<LogEvent>, options: CallOptions = {}): Promise<ReplayReport> {
        const timeoutMs = options.timeoutMs ?? 600_000;
        const first = { type: "replay", configuration, log: events === undefined ? "own" : "body" };
        const body = [first, ...(events ?? [])].map((line) => JSON.stringify(line) + "\n").join("");
        const text = await this.text("POST", pathOf(tenant, "replay"), { ...options, mayRepeat: true, body, contentType: "application/x-ndjson", timeoutMs, tryMs: timeoutMs });
        const last = lines<Schemas["ReplayLine"]>(text).at(-1);
        if (last?.type === "failed") throw problemOf(last.problem.status, last.problem);
        if (last?.type !== "report") throw new ConnectionFailed("the replay ended before its report");
        return last;
    }

    // ---- any request

    /** The answer's JSON; undefined where there is none. */
    async call<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
        const text = await this.text(method, path, options);
        return (text === "" ? undefined : JSON.parse(text)) as T;
    }

    /** The answer's text. */
    async text(method: string, path: string, options: RequestOptions = {}): Promise<string> {
        const retry = this.#options.retry ?? {};
        const end = performance.now() + (options.timeoutMs ?? this.#options.timeoutMs ?? 30_000);
        for (let nFailed = 1; ; nFailed++) {
            const tried = await this.#attempt(method, path, options, end);
            if ("text" in tried) return tried.text;
            const wait = waitAfter(retry, nFailed, tried.retryAfter);
            if (!tried.again || nFailed === retry.attempts || performance.now() + wait >= end) throw tried.fault;
            await sleep(wait);
        }
    }

    async #attempt(method: string, path: string, options: RequestOptions, end: number): Promise<Attempt> {
        const query = options.query === undefined ? "" : `?${new URLSearchParams(Object.entries(options.query).map(([k, v]) => [k, String(v)]))}`;
        const mayRepeat = options.mayRepeat ?? method !== "POST";
        const over = new AbortController();
        const timer = setTimeout(() => over.abort(), Math.max(0, Math.min(end - performance.now(), options.tryMs ?? this.#options.tryMs ?? 10_000)));
        const leave = (): void => over.abort();
        options.signal?.throwIfAborted();
        options.signal?.addEventListener("abort", leave);
        try {
            const answer = await (this.#options.fetch ?? fetch)(this.#url + path + query, { method, headers: this.#headers(options), signal: over.signal, ...bodyOf(options) });
            const text = await answer.text();
            if (answer.status < 400) return { text };
            const retryAfter = parseRetryAfter(answer.headers.get("retry-after"));
            const fault = problemOfAnswer(answer.status, text, retryAfter, answer.headers.get("laplaced-request") ?? "");
            return { fault, again: nothingDone.includes(answer.status) || (mayRepeat && perhapsDone.includes(answer.status)), retryAfter };
        } catch (cause) {
            options.signal?.throwIfAborted();
            return { fault: new ConnectionFailed(`${method} ${path}: ${reasonOf(cause)}`, { cause }), again: mayRepeat || isNotSent(cause) };
        } finally {
            clearTimeout(timer);
            options.signal?.removeEventListener("abort", leave);
        }
    }

    #headers(options: RequestOptions): Record<string, string> {
        const tenant = options.tenant ?? this.#options.tenant;
        return {
            ...(options.body === undefined ? {} : { "Content-Type": options.contentType ?? "application/json" }),
            ...(tenant === undefined ? {} : { "Laplaced-Tenant": tenant }),
            ...(this.#options.key === undefined ? {} : { Authorization: `Bearer ${this.#options.key}` }),
        };
    }
}

function bodyOf({ body }: RequestOptions): { body?: string } {
    return body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
}

function codeOf(cause: unknown): unknown {
    const inner = cause instanceof Error ? cause.cause : undefined;
    return typeof inner === "object" && inner !== null && "code" in inner ? inner.code : undefined;
}

/** There was no connection: the server cannot have done anything. */
function isNotSent(cause: unknown): boolean {
    return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(String(codeOf(cause)));
}

function reasonOf(cause: unknown): string {
    if (cause instanceof Error && cause.name === "AbortError") return "no answer in time";
    return String(codeOf(cause) ?? cause);
}
