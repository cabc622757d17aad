/* All tenants: is the server alive, and what does each of them earn? */
import { h, id, to } from './dom.js';
import { get, of, unless, request } from './api.js';
import { table, interval } from './table.js';
import { whisker, axis, span, spark } from './plot.js';
import { count, num, known, percent, meanOf } from './format.js';

const SPARKS = 24; /* tenants whose course is drawn */
const DAYS = 86400000;
const MISSING = 0.5; /* of rewards, from which on it is told */
const MANY = 10000; /* events that a challenger may be behind without a word */

/* --- the server ---------------------------------------------------------------------------------------------- */

let before = null, refusedAtFirst = null;

/**
 * Requests a second and the time that 99 % of them take, since the last look; how many were refused for want of room, and numbers
 * of models that were lifted to their floor, by tenant. null for a key that may not see metrics.
 */
async function pulse(signal) {
  const answer = await unless([403, 503], null, request('GET', '/metrics', { signal }));
  if (answer === null) return null;
  const text = await answer.text();
  const now = { at: performance.now(), requests: 0, buckets: new Map() }, clamps = {};
  let refused = 0;
  for (const line of text.split('\n')) {
    const value = Number(line.slice(line.lastIndexOf(' ') + 1));
    if (line.startsWith('laplaced_http_requests_total{') && /route="\/(select|reward|observe|activate)"/.test(line)) now.requests += value;
    if (line.startsWith('laplaced_http_requests_total{') && line.includes('code="503"')) refused += value;
    if (line.startsWith('laplaced_model_clamps{') && value > 0) clamps[/tenant="([^"]+)"/.exec(line)[1]] = value;
    if (line.startsWith('laplaced_http_request_duration_seconds_bucket{') && line.includes('route="/select"')) {
      const le = Number(/le="([^"]+)"/.exec(line)[1].replace('+Inf', 'Infinity'));
      now.buckets.set(le, (now.buckets.get(le) ?? 0) + value);
    }
  }
  const last = before;
  before = now;
  if (refusedAtFirst === null || refused < refusedAtFirst) refusedAtFirst = refused;
  const troubles = { refused, lately: refused - refusedAtFirst, clamps };
  if (last === null || now.requests < last.requests) return { rate: null, slowest: null, ...troubles };
  const counts = [...now.buckets].sort((a, b) => a[0] - b[0]).map(([le, n]) => [le, n - (last.buckets.get(le) ?? 0)]);
  const all = counts.length ? counts.at(-1)[1] : 0;
  const slowest = all > 0 ? counts.find(([, n]) => n >= 0.99 * all)[0] : null;
  return { rate: (1000 * (now.requests - last.requests)) / (now.at - last.at), slowest, ...troubles };
}

/* --- tenants ------------------------------------------------------------------------------------------------- */

const courses = {}; /* by tenant; asked for once a minute */

/** Of the decisions whose window has closed, how many have no reward, not even a default one; at least so many while others are open. */
const shareMissing = ({ stats: s }) => (s && s.decisions > s.pending ? Math.max(0, s.decisions - s.pending - (s.rewards - s.observations)) / (s.decisions - s.pending) : null);

/** What is quickly told comes first: a look that is the page's first one asks for nothing else. */
async function load(page, isFirst) {
  const { signal } = page;
  const list = (await get('/tenants?stats=1', { signal })).tenants;
  if (isFirst) page.named(list);
  if (isFirst) return { list, courses, pulse: null, isWhole: false };
  /* Closed tenants have no statistics, and stay closed: to ask for those would open the whole disk, a few at each look. */
  const busy = list.filter((t) => t.stats?.decisions > 0).slice(0, SPARKS);
  const from = Date.now() - 2 * DAYS;
  await Promise.all(busy.filter((t) => !(courses[t.name]?.until > Date.now())).map(async (t) => {
    const rows = async (step) => (await unless([404, 429, 503], null, get(`${of(t.name, 'series')}?step=${step}&from=${from}`, { signal })))?.rows.filter((r) => r.rewards > 0) ?? [];
    const hours = await rows('hour');
    courses[t.name] = { rows: hours.length < 3 ? await rows('minute') : hours, until: Date.now() + 60000 };
  }));
  return { list, courses, pulse: await pulse(signal), isWhole: true };
}

/** What somebody should look at, in words. */
function alarms(t, beat) {
  const { stats } = t, all = [], missing = shareMissing(t), clamps = beat?.clamps[t.name];
  if (t.detail || t.state === 'failed') all.push(t.detail ?? 'the tenant cannot be opened');
  if (stats?.traffic_alarm) all.push('the traffic of the experiment does not match its propensities');
  for (const c of stats?.challengers ?? []) {
    if (c.stopped) all.push(['challenger ', id(c.name), ' follows the log no longer']);
    else if (c.lag > MANY) all.push(['challenger ', id(c.name), ` is ${count(c.lag)} events behind`]);
  }
  if (missing > MISSING) all.push(`${percent(missing)} of the decisions whose window has closed have no reward`);
  if (clamps) all.push(`${count(clamps)} numbers of the model were lifted to their floor: it is losing digits`);
  if (stats?.unknown > 0) all.push(`${count(stats.unknown)} rewards found no decision`);
  if (stats?.late > 0) all.push(`${count(stats.late)} rewards came after their window`);
  return all;
}

/** Alarms of the server, and then of its tenants. */
function toLookAt(list, beat) {
  const items = list.flatMap((t) => alarms(t, beat).map((text) => h('li', {}, id(t.name), ': ', text)));
  if (beat?.refused > 0) items.unshift(h('li', {}, `the server: ${count(beat.refused)} requests were answered 503 since it began to run, ${count(beat.lately)} of them since this page was opened`));
  return items.length ? h('section', { class: 'problem', id: 'alarms' }, h('h2', {}, 'To look at'), h('ul', {}, items)) : null;
}

/** What the small curves are made of. */
function sparkNumbers(list) {
  const rows = list.flatMap((t) => (courses[t.name]?.rows ?? []).map((r) => ({ tenant: t.name, at: r.at, ...meanOf(r.rewards, r.sum, r.square_sum) })));
  return rows.length === 0 ? null : h('details', {}, h('summary', {}, 'The numbers of the curves'), table({ id: 'sparks', name: 'sparks', caption: 'Mean reward of two days, by hour or minute (UTC)', rows, columns: [
    { name: 'tenant', kind: 'id', value: (r) => r.tenant },
    { name: 'from', kind: 'time', value: (r) => r.at },
    { name: 'rewards', kind: 'count', value: (r) => r.n },
    { name: 'mean reward', kind: 'num', value: (r) => r.mean },
    interval('95 %', (r) => r.low, (r) => r.high)] }));
}

const policy = (t) => t.stats?.routes.policy ?? {};
const holdout = (t) => t.stats?.routes.holdout ?? {};

function draw({ list, courses, pulse: beat }) {
  const hasCourse = (t) => courses[t.name]?.rows.length > 1;
  const decided = list.reduce((sum, t) => sum + (t.stats?.decisions ?? 0), 0);
  const closed = list.filter((t) => t.state === 'closed').length;
  const isEmpty = decided === 0 && list.every((t) => t.state === 'closed' || t.stats?.rewards === 0);
  const uncounted = closed === 1 ? '1 is closed and not counted (it opens when it is asked for)' : `${count(closed)} are closed and not counted (each opens when it is asked for)`;
  if (isEmpty && closed === 0) return h('div', { 'data-empty': true }, h('p', { class: 'lead' }, 'This server has decided nothing yet. Play a town, or take one of three recipes.'));
  const at = span(list.flatMap((t) => [policy(t).lower, policy(t).upper, policy(t).mean_reward, holdout(t).lower, holdout(t).upper, holdout(t).mean_reward]));
  const columns = [
    { name: 'tenant', kind: 'id', value: (t) => t.name, cell: (t) => to(['t', t.name, 'traffic'], id(t.name)) },
    ...(list.some((t) => t.state !== 'open') ? [{ name: 'state', kind: 'word', value: (t) => t.state, cell: (t) => h('span', { class: t.state === 'open' || t.state === 'closed' ? null : 'bad' }, t.state) }] : []),
    { name: 'mean reward', kind: 'num', value: (t) => policy(t).mean_reward ?? null },
    interval('95 %', (t) => policy(t).lower ?? null, (t) => policy(t).upper ?? null),
    { name: '', kind: 'plot', head: axis(at), value: () => null, cell: (t) => h('div', { class: 'pair' },
      whisker(at, policy(t).mean_reward, policy(t).lower, policy(t).upper),
      holdout(t).rewards > 0 ? whisker(at, holdout(t).mean_reward, holdout(t).lower, holdout(t).upper, 'c1') : null) },
    ...(list.some(hasCourse) ? [{ name: '2 days', kind: 'plot', value: () => null, cell: (t) => (hasCourse(t) ? spark(courses[t.name].rows.map((r) => r.sum / r.rewards)) : '–') }] : []),
    ...(list.some((t) => t.stats?.experiment) ? [{ name: 'experiment', kind: 'id', value: (t) => t.stats?.experiment ?? null }] : []),
    { name: 'decisions', kind: 'count', value: (t) => t.stats?.decisions ?? t.decisions ?? null },
    { name: 'no reward', kind: 'percent', value: shareMissing },
    ...(list.some((t) => holdout(t).rewards > 0) ? [
      { name: 'holdout', kind: 'num', value: (t) => holdout(t).mean_reward ?? null },
      interval('its 95 %', (t) => holdout(t).lower ?? null, (t) => holdout(t).upper ?? null)] : []),
    { name: 'open', kind: 'count', value: (t) => t.stats?.pending ?? null },
    { name: 'last event', kind: 'time', value: (t) => t.stats?.last_event_at ?? null },
    { name: 'algorithm', value: (t) => t.algorithm ?? null },
  ];
  return h('div', { 'data-empty': isEmpty },
    isEmpty ? h('p', { class: 'lead' }, `The open tenants have decided nothing yet; ${uncounted}. Play a town, or take one of three recipes.`) : h('p', { class: 'lead' }, h('strong', { 'data-of': 'decisions' }, count(decided)), ' decisions in ', h('strong', {}, count(list.length)), list.length === 1 ? ' tenant' : ' tenants', closed ? `, of which ${uncounted}` : null,
      beat && known(beat.rate) ? [', now ', h('strong', { 'data-of': 'rate' }, num(beat.rate)), ' requests a second'] : null,
      beat && known(beat.slowest) ? [', 99 % of decisions within ', h('strong', { 'data-of': 'slowest' }, Number.isFinite(beat.slowest) ? `${num(1000 * beat.slowest)} ms` : 'more than the last bucket')] : null, '.'),
    toLookAt(list, beat),
    table({ id: 'tenants', name: 'tenants', caption: list.some((t) => holdout(t).rewards > 0) ? 'Mean reward since the beginning: of the policy (first colour) and of the holdout (second)' : 'Mean reward of the policy since the beginning', columns, rows: list }), sparkNumbers(list));
}

export function overview(page) {
  let isFirst = true;
  /* Made once: a town that is being played outlives the next look at the server. Loaded when it is opened. */
  const below = h('details', { class: 'welcome', id: 'begin', ontoggle: async (event) => {
    if (event.target !== below || below.dataset.asked) return;
    below.dataset.asked = 'true';
    below.append(...(await import('./welcome.js')).beginnings());
  } }, h('summary', {}, 'Play a town; three recipes'));
  return h('div', {}, h('h1', {}, 'Tenants'), page.live(async () => {
    const data = await load(page, isFirst);
    isFirst = false;
    return data;
  }, (data) => {
    const shown = draw(data);
    if (shown.dataset.empty !== undefined && !below.dataset.asked) below.open = true;
    return shown;
  }, (data) => (data.isWhole ? 5 : 0.05)), below);
}
