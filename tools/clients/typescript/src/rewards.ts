// Rewards in batches: they are collected for a moment and sent as one request, each under an id of its own. Who adds one gets a promise of its result.
import type { Reward, RewardResult } from "./client.js";
import { newId } from "./client.js";
import { ConnectionFailed, LaplacedError, Problem } from "./errors.js";
import { nothingDone, sleep, waitAfter, type Retry } from "./retry.js";

export interface RewardsOptions {
    tenant?: string;
    /** Rewards of one request, at most 1,000. */
    most?: number;
    /** How long the first of them waits for others. */
    waitMs?: number;
    /** When a reward is given up. */
    timeoutMs?: number;
}

type Send = (rewards: readonly Reward[], timeoutMs: number) => Promise<(RewardResult | Problem)[]>;

interface Item {
    body: Reward;
    end: number;
    last?: LaplacedError;
    resolve(result: RewardResult): void;
    reject(fault: Error): void;
}

export class Rewards {
    readonly #send: Send;
    readonly #retry: Retry;
    readonly #most: number;
    readonly #waitMs: number;
    readonly #timeoutMs: number;
    #waiting: Item[] = [];
    #timer: ReturnType<typeof setTimeout> | undefined;
    #running: Promise<void> | undefined;
    #retryAfter: number | undefined; // the longest that the last batch was told, in seconds
    #restEnd = 0; // when the server may be asked again
    #why: LaplacedError | undefined; // and why not before

    constructor(send: Send, retry: Retry, options: RewardsOptions) {
        this.#send = send;
        this.#retry = retry;
        this.#most = Math.min(options.most ?? 500, 1000);
        this.#waitMs = options.waitMs ?? 100;
        this.#timeoutMs = options.timeoutMs ?? 60_000;
    }

    /** How many wait or are under way; who produces faster than the server takes may look at it. */
    get size(): number {
        return this.#waiting.length + this.#underWay;
    }
    #underWay = 0;

    /** The result of this reward. A rejection that nobody waits for is no crash of the process: whoever wants to know awaits it. */
    add(reward: Reward): Promise<RewardResult> {
        const end = performance.now() + this.#timeoutMs;
        const promise = new Promise<RewardResult>((resolve, reject) => {
            if (!Number.isFinite(reward.reward)) throw new TypeError(`a reward is a finite number, not ${reward.reward}`);
            if (this.#why !== undefined && end <= this.#restEnd) throw this.#why;
            this.#waiting.push({ body: { ...reward, id: reward.id ?? newId() }, end, resolve, reject });
        });
        promise.catch(() => undefined);
        if (this.#waiting.length >= this.#most) void this.#start();
        else this.#timer ??= setTimeout(() => void this.#start(), this.#waitMs);
        return promise;
    }

    /** Ends when each reward that was added has its result, or was given up. */
    async flush(): Promise<void> {
        while (this.size > 0) await this.#start();
    }

    #start(): Promise<void> {
        clearTimeout(this.#timer);
        this.#timer = undefined;
        return (this.#running ??= this.#run().finally(() => (this.#running = undefined)));
    }

    async #run(): Promise<void> {
        for (let nRefused = 0; this.#waiting.length > 0; ) {
            const left = this.#restEnd - performance.now();
            if (left > 0) await sleep(left);
            this.#retryAfter = undefined;
            const batch = this.#waiting.splice(0, this.#most);
            this.#underWay = batch.length;
            const again = await this.#deliver(batch);
            this.#waiting.unshift(...again);
            this.#underWay = 0;
            nRefused = again.length > 0 ? nRefused + 1 : 0;
            if (again.length > 0) this.#rest(waitAfter(this.#retry, nRefused, this.#retryAfter), again.at(-1)!.last);
        }
    }

    /** The server is asked for nothing so long. Whose deadline comes before is given up at once. */
    #rest(ms: number, why: LaplacedError | undefined): void {
        this.#restEnd = performance.now() + ms;
        this.#why = why;
        const late = this.#waiting.filter((item) => item.end <= this.#restEnd);
        this.#waiting = this.#waiting.filter((item) => item.end > this.#restEnd);
        for (const item of late) item.reject(item.last ?? why ?? new ConnectionFailed("the server is not to be asked yet"));
    }

    /** Gives the promises their results. What the server was too busy for, and has time left, comes back. */
    async #deliver(all: Item[]): Promise<Item[]> {
        const now = performance.now();
        for (const item of all) if (item.end <= now) item.reject(item.last ?? new ConnectionFailed("the reward was given up at its deadline"));
        const batch = all.filter((item) => item.end > now);
        if (batch.length === 0) return [];
        try {
            const results = await this.#send(batch.map((item) => item.body), Math.max(...batch.map((item) => item.end)) - now);
            return batch.filter((item, i) => !settle(item, results[i]!));
        } catch (fault) {
            return this.#refused(batch, fault instanceof LaplacedError ? fault : new LaplacedError(String(fault), { cause: fault }));
        }
    }

    /** A batch that was refused whole. Rewards that the problem names are at fault; of a batch that is too large, or whose faults have no place, halves are tried. */
    async #refused(batch: Item[], fault: LaplacedError): Promise<Item[]> {
        if (fault instanceof Problem && nothingDone.includes(fault.status)) {
            this.#retryAfter = Math.max(this.#retryAfter ?? 0, fault.retryAfter ?? 0);
            return batch.filter((item) => !settle(item, fault));
        }
        if (fault instanceof Problem && [400, 413, 422].includes(fault.status)) {
            const bad = new Set(fault.pointers.map((pointer) => Number(pointer.split("/")[1] || NaN)).filter((i) => i < batch.length));
            if (bad.size > 0) {
                for (const i of bad) batch[i]!.reject(fault);
                return this.#deliver(batch.filter((_, i) => !bad.has(i)));
            }
            if (batch.length > 1) {
                const middle = Math.floor(batch.length / 2);
                return [...(await this.#deliver(batch.slice(0, middle))), ...(await this.#deliver(batch.slice(middle)))];
            }
        }
        for (const item of batch) item.reject(fault);
        return [];
    }
}

/** Whether the promise has its result by now. */
function settle(item: Item, result: RewardResult | LaplacedError): boolean {
    if (!(result instanceof LaplacedError)) {
        item.resolve(result);
        return true;
    }
    if (result instanceof Problem && nothingDone.includes(result.status) && performance.now() < item.end) {
        item.last = result;
        return false;
    }
    item.reject(result);
    return true;
}
