// When a request is sent again. Waits double, are drawn at random below their bound so that clients do not come back together, and are never shorter than
// Retry-After asks.

export interface Retry {
    /** Tries in all; left out, as many as the deadline allows. 1: never again. */
    attempts?: number;
    firstMs?: number;
    longestMs?: number;
}

/** Whatever was asked may be asked again. */
export const nothingDone: readonly number[] = [429, 503];
/** Of a proxy: again only what may be sent twice. */
export const perhapsDone: readonly number[] = [502, 504];

/** Milliseconds to wait after so many failures. */
export function waitAfter(retry: Retry, nFailed: number, retryAfter: number | undefined): number {
    const bound = Math.min(retry.longestMs ?? 5000, (retry.firstMs ?? 100) * 2 ** Math.min(nFailed - 1, 30));
    return (retryAfter ?? 0) * 1000 + Math.random() * bound;
}

/** Seconds of a Retry-After, which may be a date where a proxy sends it. */
export function parseRetryAfter(text: string | null): number | undefined {
    if (text === null) return undefined;
    if (/^\s*\d+\s*$/.test(text)) return Number(text);
    const date = Date.parse(text);
    return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

export function sleep(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
}
