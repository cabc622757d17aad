// What can go wrong: a refusal by the server is a Problem, of a class for each status; no answer in time is ConnectionFailed.
import type { components } from "./contract.js";

export type ProblemDocument = components["schemas"]["Problem"];

export interface Fault {
    /** Where in the body, as a JSON pointer. */
    pointer: string;
    detail: string;
}

export class LaplacedError extends Error {
    constructor(message: string, options?: ErrorOptions) {
        super(message, options);
        this.name = new.target.name;
    }
}

/** No answer came before the deadline. Whether the server did what was asked is not known; the same request may be sent again with the same ids. */
export class ConnectionFailed extends LaplacedError {}

/** A problem document (RFC 9457). The request changed nothing. */
export class Problem extends LaplacedError {
    readonly status: number;
    readonly document: Partial<ProblemDocument>;
    /** The last part of the type: "no-decision" of /problems/no-decision. */
    readonly kind: string;
    readonly detail: string;
    readonly faults: readonly Fault[];
    /** Seconds. */
    readonly retryAfter: number | undefined;
    /** The id to quote. */
    readonly request: string;

    constructor(status: number, document: Partial<ProblemDocument>, retryAfter?: number, request = "") {
        const kind = (document.type ?? "about:blank").replace(/^.*\//, "");
        const faults = document.errors ?? [];
        const places = faults.map((f) => `${f.pointer || "(the body)"}: ${f.detail}`).join("; ");
        super(`${status} ${kind}: ${document.detail ?? ""}${places && ` [${places}]`}${request && ` (request ${request})`}`);
        this.status = status;
        this.document = document;
        this.kind = kind;
        this.detail = document.detail ?? "";
        this.faults = faults;
        this.retryAfter = retryAfter;
        this.request = request;
    }

    get pointers(): string[] {
        return this.faults.map((f) => f.pointer);
    }
}

/** 400: the body or the query has faults; `faults` names them. */
export class BadRequest extends Problem {}
/** 401: there is no key, or it opens nothing (any more). */
export class Unauthorized extends Problem {}
/** 403: the key lacks the role. */
export class Forbidden extends Problem {}
/** 404: `kind` says what is not there. */
export class NotFound extends Problem {}
/** 409: it contradicts what the log has. */
export class Conflict extends Problem {}
/** 410: the decision's window is closed. */
export class Gone extends Problem {}
/** 413: the body is too large. */
export class TooLarge extends Problem {}
/** 422: understood, and not possible. */
export class Unprocessable extends Problem {}
/** 429: over the rate. */
export class TooManyRequests extends Problem {}
/** 500, 502, 504: the server, or a proxy before it, cannot answer this. */
export class ServerFault extends Problem {}
/** 503: busy, starting, stopping, or a disk that takes no writes; nothing was done. */
export class NotReady extends Problem {}
/** 507: the tenant has used what it may. */
export class OverQuota extends Problem {}

const classes: Record<number, typeof Problem> = {
    400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 413: TooLarge, 422: Unprocessable, 429: TooManyRequests,
    500: ServerFault, 502: ServerFault, 503: NotReady, 504: ServerFault, 507: OverQuota,
};

export function problemOf(status: number, document: Partial<ProblemDocument>, retryAfter?: number, request?: string): Problem {
    return new (classes[status] ?? Problem)(status, document, retryAfter, request);
}

/** Of an answer whose body should be a problem document. What a proxy says in words of its own becomes the detail. */
export function problemOfAnswer(status: number, body: string, retryAfter: number | undefined, request: string): Problem {
    let document: unknown;
    try {
        document = JSON.parse(body);
    } catch {
        document = undefined;
    }
    const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
    return problemOf(status, isObject ? (document as Partial<ProblemDocument>) : { detail: body.slice(0, 500) }, retryAfter, request);
}
