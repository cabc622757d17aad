/* The console: which screen the address asks for, the key, and what all screens share.
 *
 *   #/                       all tenants
 *   #/t/TENANT/SCREEN/...    one tenant, by one of the screens below
 *
 * A screen is a function of a page that returns what stands in it, or a promise of that. When the address
 * changes, what the screen before had asked for is called off. */
import { h, id, to, place, say, button, field } from './dom.js';
import { key, get, call, of, unless, follow, Problem } from './api.js';
import { told } from './told.js';

/* A screen is loaded when it is asked for first. */
const SCREENS = [
  ['traffic', 'Rewards', async () => (await import('./traffic.js')).traffic],
  ['decision', 'A decision', async () => (await import('./decision.js')).decision],
  ['neighbours', 'Neighbours', async () => (await import('./neighbours.js')).neighbours],
  ['challengers', 'Challengers', async () => (await import('./challengers.js')).challengers],
  ['model', 'Model', async () => (await import('./model.js')).model],
  ['evaluation', 'Evaluation', async () => (await import('./evaluation.js')).evaluation],
  ['audit', 'Audit', async () => (await import('./audit.js')).audit],
];
const overview = async () => (await import('./overview.js')).overview;
const main = document.getElementById('main');
const head = document.getElementById('head');
let leaving = new AbortController();
let tenants = [];

/* --- the key ------------------------------------------------------------------------------------------------ */

const DAY_OF_WORK_S = 28800;
let longLived = ''; /* why the key in use is not the shorter one that was asked for */

/** In place of the key, one that it makes, with an end. What was in the way, in words; null: nothing. */
async function shorten() {
  const wish = { label: 'console', expires_in_s: DAY_OF_WORK_S };
  try {
    let made = await unless([403], null, call('POST', '/keys', { body: wish }));
    if (made === null) {
      const own = (await get('/tenants')).tenants;
      if (own.length === 1)
        made = await unless([403], null, call('POST', of(own[0].name, 'keys'), { body: { ...wish, roles: ['decide', 'read', 'manage'] } }));
    }
    if (made === null) return 'this key may make no keys';
    key.set(made.key);
    return null;
  } catch (fault) {
    if (!(fault instanceof Problem)) throw fault;
    return fault.status === 401 ? null : fault.message; /* a key that is none is told of by the form */
  }
}

/** In place of the screen, which ends: another of its refusals would draw the form anew under the hands of who types. */
function keyForm(refused) {
  leaving.abort();
  const input = h('input', { type: 'password', name: 'key', autocomplete: 'off', required: true, spellcheck: 'false', 'aria-describedby': 'key-note' });
  const short = h('input', { type: 'checkbox', name: 'short' });
  const submit = async (event) => {
    event.preventDefault();
    key.set(input.value.trim());
    const hindered = short.checked ? await shorten() : null;
    longLived = hindered === null ? '' : `A key of eight hours is not to be had: ${hindered}. The key itself is used.`;
    if (longLived) say(longLived);
    route();
  };
  main.replaceChildren(h('form', { class: 'card', id: 'key-form', onsubmit: submit },
    h('h1', {}, 'This server asks for a key'),
    refused && key.get() ? h('p', { class: 'problem', role: 'alert' }, refused) : null,
    h('label', { class: 'field' }, h('span', {}, 'Key'), input),
    h('label', { class: 'check' }, short, 'let it make a key of eight hours, and use that one'),
    h('p', { class: 'fine', id: 'key-note' }, 'The key stays in this tab until you forget it or close the tab; a browser that opens the closed tab again, or its last session, may bring it back. Forget it where others use the browser. It is sent to this server alone, as a header.'),
    h('button', { type: 'submit' }, 'Use this key')));
  input.focus();
}

function forget() {
  key.forget();
  longLived = '';
  tenants = [];
  route();
  say('The key is forgotten.');
}

/* --- the head ----------------------------------------------------------------------------------------------- */

function drawHead(tenant, screen) {
  const names = tenants.map((t) => t.name);
  if (tenant && !names.includes(tenant)) names.push(tenant);
  const chooser = h('select', { 'aria-label': 'Tenant', id: 'tenant', onchange: (event) => { location.hash = event.target.value ? place(['t', event.target.value, screen ?? 'traffic']) : '#/'; } },
    h('option', { value: '' }, 'all tenants'),
    names.map((name) => h('option', { value: name, selected: name === tenant }, name)));
  const links = tenant ? SCREENS.map(([name, text]) => h('a', { href: place(['t', tenant, name]), 'aria-current': name === screen ? 'page' : null }, text)) : [];
  head.replaceChildren(
    h('div', { class: 'bar' }, h('a', { class: 'brand', href: '#/' }, 'laplaced'), chooser,
      h('span', { class: 'grow' }),
      key.get() ? [h('span', { class: 'fine' }, 'with a key'), button('Forget the key', forget, { class: 'small', id: 'forget' })] : null),
    key.get() && longLived ? h('p', { class: 'fine', id: 'long-lived' }, longLived) : '',
    tenant ? h('nav', { 'aria-label': 'Screens' }, links) : '');
}

/* --- pages -------------------------------------------------------------------------------------------------- */

const SOON_MS = 300; /* from a line of the log to the look at it, and so between two looks at least */

/**
 * What a screen is given.
 * @typedef {object} Page
 * @property {string} tenant
 * @property {string[]} rest of the address
 * @property {AbortSignal} signal ends with the screen
 * @property {function(function(): Promise<any>, function(any): Node, (number|function(any): number)=, string=): Node} live what
 *   load() gives, drawn, and drawn again when it has changed: asked for again after so many seconds (0: not again; a function says it
 *   of what was given), and when the log has got a line of these types
 * @property {function(function(function, function(): void): Node): Node} renewed a place for what begin(live, again) gives; again() makes it anew
 *   and ends what the regions of this live were asking for
 * @property {function({name: string}[]): void} named takes the list of all tenants, which the head shows as well
 */

function region(signal, tenant) {
  return function live(load, draw, seconds = 5, types = null) {
    const place = h('div', { class: 'live' }, h('p', { class: 'loading' }, 'Loading …'));
    let last = null, timer = 0, due = Infinity, isTurning = false, wait = typeof seconds === 'number' ? seconds : 1;
    const redraw = (data) => {
      const open = [...place.querySelectorAll('details')].map((d) => d.open);
      place.replaceChildren(draw(data));
      place.querySelectorAll('details').forEach((d, i) => { d.open = open[i] ?? d.open; });
    };
    const isBusy = () => last !== null && place.contains(document.activeElement);
    const turn = async () => {
      if (signal.aborted) return;
      due = Infinity;
      if (isTurning) return again(SOON_MS);
      isTurning = true;
      try {
        if (!document.hidden && !isBusy()) {
          const data = await load();
          const text = JSON.stringify(data);
          if (text !== last && !isBusy()) {
            redraw(data);
            last = text;
            if (typeof seconds === 'function') wait = seconds(data);
          }
          place.querySelector(':scope > .away')?.remove();
        }
      } catch (fault) {
        if (fault.name === 'AbortError' || signal.aborted) return;
        if (fault instanceof Problem && fault.status === 401) return keyForm(fault.message);
        if (fault instanceof Problem && (fault.status === 0 || fault.status === 503)) {
          if (last === null) place.replaceChildren();
          if (!place.querySelector(':scope > .away')) place.prepend(h('p', { class: 'away problem', role: 'alert' }, `${fault.message} Trying again …`));
        } else {
          place.replaceChildren(told(fault));
          last = null;
          if (fault.status !== 429) return;
        }
      } finally {
        isTurning = false;
      }
      again((place.querySelector(':scope > .away') ? 1 : last === null ? wait || 5 : wait) * 1000);
    };
    /* A turn that is due sooner stays, so that lines that come without an end put nothing off. */
    const again = (ms) => {
      const at = performance.now() + ms;
      if (ms <= 0 || signal.aborted || due <= at) return;
      clearTimeout(timer);
      due = at;
      timer = setTimeout(turn, ms);
    };
    /* Where there is no stream (any more), the clock goes on. */
    if (types) follow(tenant, types, () => again(SOON_MS), signal).catch(() => {});
    turn();
    return place;
  };
}

function renewing(signal, tenant) {
  return function renewed(begin) {
    const host = h('div', {});
    let ending = new AbortController();
    const again = () => {
      ending.abort();
      ending = new AbortController();
      host.replaceChildren(begin(region(AbortSignal.any([signal, ending.signal]), tenant), again));
    };
    again();
    return host;
  };
}

/** Names for the head, which does not hold up the screen. */
async function listTenants(tenant, screen, signal) {
  const answer = await unless([0, 401, 403, 503], null, get('/tenants', { signal }));
  if (answer === null || signal.aborted) return;
  tenants = answer.tenants;
  drawHead(tenant, screen);
}

async function route() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [kind, tenant, name, ...rest] = location.hash.replace(/^#\/?/, '').split('/').filter((p) => p !== '').map(decodeURIComponent);
  const screen = kind === 't' ? SCREENS.find(([one]) => one === (name ?? 'traffic')) : null;
  const page = { tenant: kind === 't' ? tenant : null, rest, signal, live: region(signal, tenant), renewed: renewing(signal, tenant), named: (list) => { tenants = list; drawHead(null); }, refuse: (fault) => (fault.status === 401 ? (keyForm(fault.message), '') : told(fault)) };
  drawHead(page.tenant, screen?.[0]);
  document.title = page.tenant ? `${page.tenant}: ${screen?.[1] ?? ''} - laplaced` : 'laplaced';
  if (page.tenant) listTenants(page.tenant, screen?.[0], signal).catch((fault) => { if (fault.name !== 'AbortError') throw fault; });
  try {
    const found = kind !== 't' ? overview : screen?.[2];
    const shown = found ? await (await found())(page) : h('p', { class: 'problem' }, 'There is no such screen. ', to([], 'All tenants'));
    if (!signal.aborted) main.replaceChildren(shown);
  } catch (fault) {
    if (fault.name === 'AbortError' || signal.aborted) return;
    if (fault.status === 401) keyForm(fault.message);
    else main.replaceChildren(told(fault), h('p', {}, to([], 'All tenants')));
  }
}

window.addEventListener('hashchange', () => { route(); main.focus({ preventScroll: true }); });
route();
