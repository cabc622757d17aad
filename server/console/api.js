/* The one way to the server. The key lies in this tab's sessionStorage (a browser that opens
 * a closed tab again may bring it back) and goes out as a header alone: it is in no
 * address, no cookie and no log. Each refusal becomes a Problem, whose words a screen shows. */

const KEY = 'laplaced.key';
const managed = new Map(); /* by key and tenant; holds no key that is not in use */
let sharesLog = false; /* servers that share a log say by a header how far they have read it */

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => {
    managed.clear();
    sessionStorage.setItem(KEY, text);
  },
  forget: () => {
    managed.clear();
    sessionStorage.removeItem(KEY);
  },
};

/** A refusal, as the server words it (RFC 9457); status 0: there was no answer. */
export class Problem extends Error {
  constructor(status, document, retryAfter) {
    super(document.detail ?? document.title ?? `status ${status}`);
    this.status = status;
    this.title = document.title;
    this.type = document.type;
    this.errors = document.errors ?? [];
    this.limit = document.limit;
    this.instance = document.instance;
    this.retryAfter = retryAfter;
  }
}

async function refusal(answer) {
  let document = {};
  try {
    document = await answer.json();
  } catch {
    /* no problem document: a proxy's answer, perhaps */
  }
  return new Problem(answer.status, document, Number(answer.headers.get('Retry-After')) || null);
}

/**
 * The answer of a request, once its head is there.
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, tenant?: string, accept?: string, signal?: AbortSignal}} [options] tenant: of routes that name it by a header
 */
export async function request(method, path, options = {}) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  if (options.tenant) headers['Laplaced-Tenant'] = options.tenant;
  if (options.accept) headers.Accept = options.accept;
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, signal: options.signal, credentials: 'omit', cache: 'no-store', redirect: 'error',
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
    });
  } catch (fault) {
    if (fault.name === 'AbortError') throw fault;
    throw new Problem(0, { title: 'No answer', detail: 'The server does not answer.' });
  }
  if (answer.headers.has('Laplaced-Seq')) sharesLog = true;
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** Whether the server shares its log with others, as far as its answers have told: some changes cannot be made there yet (501). */
export const isShared = () => sharesLog;

/** The answer's JSON; null where there is none. */
export async function call(method, path, options) {
  const text = await (await request(method, path, options)).text();
  return text === '' ? null : JSON.parse(text);
}

export const get = (path, options) => call('GET', path, options);

/** Lines of the log, or of anything that has one JSON value a line. */
export async function lines(path, options) {
  const text = await (await request('GET', path, options)).text();
  return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line));
}

/** `/tenants/NAME/part/...`, each part escaped. */
export const of = (tenant, ...parts) => ['/tenants', encodeURIComponent(tenant), ...parts.map(encodeURIComponent)].join('/');

/** What a route answers, or what else where the server refuses with one of these statuses. */
export async function unless(statuses, other, promise) {
  try {
    return await promise;
  } catch (fault) {
    if (fault instanceof Problem && statuses.includes(fault.status)) return other;
    throw fault;
  }
}

/**
 * heard() is called for each line of these types as the log grows, until the signal ends it or the server does. A
 * stream of server-sent events, read by hand: a browser's own reader of these could send no key.
 */
export async function follow(tenant, types, heard, signal) {
  const answer = await request('GET', `${of(tenant, 'events')}?type=${types}`, { accept: 'text/event-stream', signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + value).split('\n\n');
    rest = whole.pop();
    for (const text of whole) {
      const has = (name) => text.split('\n').filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join('\n');
      if (has('event') === 'end') return;
      if (has('event') === '' && has('data') !== '') heard(JSON.parse(has('data')));
    }
  }
}

/** Whether the key may change the tenant: it may if it may see the tenant's keys. Asked once for each key and tenant. */
export async function mayManage(tenant, options) {
  const name = `${key.get()}\n${tenant}`;
  if (!managed.has(name)) managed.set(name, (await unless([403], null, get(of(tenant, 'keys'), options))) !== null);
  return managed.get(name);
}
