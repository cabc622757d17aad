/* All tenants: is the server alive, and what does each of them earn? */
import { h, id, to } from './dom.js';
import { get, of, unless, request } from './api.js';
import { table, interval } from './table.js';
import { whisker, axis, span, spark } from './plot.js';
import { count, num, known } from './format.js';

const SPARKS = 24; /* tenants whose course is drawn */
const DAYS = 86400000;
const MANY = 10000; /* events that a challenger may be behind without a word */

/* --- the server ---------------------------------------------------------------------------------------------- */

let before = null;

/** Requests a second and the time that 99 % of them take, since the last look; null for a key that may not see metrics. */
async function pulse(signal) {
  const answer = await unless([403, 503], null, request('GET', '/metrics', { signal }));
  if (answer === null) return null;
  const text = await answer.text();
  const now = { at: performance.now(), requests: 0, buckets: new Map() };
  for (const line of text.split('\n')) {
    const value = Number(line.slice(line.lastIndexOf(' ') + 1));
    if (line.startsWith('laplaced_http_requests_total{') && /route="\/(select|reward|observe|activate)"/.test(line)) now.requests += value;
    if (line.startsWith('laplaced_http_request_duration_seconds_bucket{') && line.includes('route="/select"')) {
      const le = Number(/le="([^"]+)"/.exec(line)[1].replace('+Inf', 'Infinity'));
      now.buckets.set(le, (now.buckets.get(le) ?? 0) + value);
    }
  }
  const last = before;
  before = now;
  if (last === null || now.requests < last.requests) return { rate: null, slowest: null };
  const counts = [...now.buckets].sort((a, b) => a[0] - b[0]).map(([le, n]) => [le, n - (last.buckets.get(le) ?? 0)]);
  const all = counts.length ? counts.at(-1)[1] : 0;
  const slowest = all > 0 ? counts.find(([, n]) => n >= 0.99 * all)[0] : null;
  return { rate: (1000 * (now.requests - last.requests)) / (now.at - last.at), slowest };
}

/* --- tenants ------------------------------------------------------------------------------------------------- */

const courses = {}; /* by tenant; asked for once a minute */

async function load(page) {
  const { signal } = page;
  const list = (await get('/tenants?stats=1', { signal })).tenants;
  /* Closed tenants have no statistics, and stay closed: to ask for those would open the whole disk, a few at each look. */
  const busy = list.filter((t) => t.stats?.decisions > 0).slice(0, SPARKS);
  const from = Date.now() - 2 * DAYS;
  await Promise.all(busy.filter((t) => !(courses[t.name]?.until > Date.now())).map(async (t) => {
    const means = async (step) => (await unless([404, 429, 503], null, get(`${of(t.name, 'series')}?step=${step}&from=${from}`, { signal })))?.rows.filter((r) => r.rewards > 0).map((r) => r.sum / r.rewards) ?? [];
    const hours = await means('hour');
    courses[t.name] = { means: hours.length < 3 ? await means('minute') : hours, until: Date.now() + 60000 };
  }));
  return { list, courses, pulse: await pulse(signal) };
}

/** What somebody should look at, in words. */
function alarms(t) {
  const { stats } = t, all = [];
  if (t.detail || t.state === 'failed') all.push(t.detail ?? 'the tenant cannot be opened');
  if (stats?.traffic_alarm) all.push('the traffic of the experiment does not match its propensities');
  all.push(...(stats?.warnings ?? []));
  for (const c of stats?.challengers ?? []) {
    if (c.stopped) all.push(['challenger ', id(c.name), ' follows the log no longer']);
    else if (c.lag > MANY) all.push(['challenger ', id(c.name), ` is ${count(c.lag)} events behind`]);
  }
  if (stats?.unknown > 0) all.push(`${count(stats.unknown)} rewards found no decision`);
  if (stats?.late > 0) all.push(`${count(stats.late)} rewards came after their window`);
  return all;
}

const policy = (t) => t.stats?.routes.policy ?? {};
const holdout = (t) => t.stats?.routes.holdout ?? {};

function draw({ list, courses, pulse: beat }) {
  const decided = list.reduce((sum, t) => sum + (t.stats?.decisions ?? 0), 0);
  const closed = list.filter((t) => t.state === 'closed').length;
  const isEmpty = decided === 0 && list.every((t) => t.state === 'closed' || t.stats?.rewards === 0);
  const uncounted = closed === 1 ? '1 is closed and not counted (it opens when it is asked for)' : `${count(closed)} are closed and not counted (each opens when it is asked for)`;
  if (isEmpty && closed === 0) return h('div', { 'data-empty': true }, h('p', { class: 'lead' }, 'This server has decided nothing yet. Play a town, or take one of three recipes.'));
  const at = span(list.flatMap((t) => [policy(t).lower, policy(t).upper, policy(t).mean_reward, holdout(t).lower, holdout(t).upper, holdout(t).mean_reward]));
  const warned = list.filter((t) => alarms(t).length > 0);
  const columns = [
    { name: 'tenant', kind: 'id', value: (t) => t.name, cell: (t) => to(['t', t.name, 'traffic'], id(t.name)) },
    ...(list.some((t) => t.state !== 'open') ? [{ name: 'state', kind: 'word', value: (t) => t.state, cell: (t) => h('span', { class: t.state === 'open' || t.state === 'closed' ? null : 'bad' }, t.state) }] : []),
    { name: 'decisions', kind: 'count', value: (t) => t.stats?.decisions ?? t.decisions ?? null },
    { name: 'mean reward', kind: 'num', value: (t) => policy(t).mean_reward ?? null },
    interval('95 %', (t) => policy(t).lower ?? null, (t) => policy(t).upper ?? null),
    { name: '', kind: 'plot', head: axis(at), value: () => null, cell: (t) => h('div', { class: 'pair' },
      whisker(at, policy(t).mean_reward, policy(t).lower, policy(t).upper),
      holdout(t).rewards > 0 ? whisker(at, holdout(t).mean_reward, holdout(t).lower, holdout(t).upper, 'c1') : null) },
    ...(list.some((t) => holdout(t).rewards > 0) ? [
      { name: 'holdout', kind: 'num', value: (t) => holdout(t).mean_reward ?? null },
      interval('its 95 %', (t) => holdout(t).lower ?? null, (t) => holdout(t).upper ?? null)] : []),
    ...(list.some((t) => t.stats?.experiment) ? [{ name: 'experiment', value: (t) => t.stats?.experiment ?? null }] : []),
    ...(list.some((t) => courses[t.name]?.means.length > 1) ? [{ name: '2 days', kind: 'plot', value: () => null, cell: (t) => (courses[t.name]?.means.length > 1 ? spark(courses[t.name].means) : '–') }] : []),
    { name: 'waiting', kind: 'count', value: (t) => t.stats?.pending ?? null },
    { name: 'last event', kind: 'time', value: (t) => t.stats?.last_event_at ?? null },
    { name: 'algorithm', value: (t) => t.algorithm ?? null },
  ];
  return h('div', { 'data-empty': isEmpty },
    isEmpty ? h('p', { class: 'lead' }, `The open tenants have decided nothing yet; ${uncounted}. Play a town, or take one of three recipes.`) : h('p', { class: 'lead' }, h('strong', { 'data-of': 'decisions' }, count(decided)), ' decisions in ', h('strong', {}, count(list.length)), list.length === 1 ? ' tenant' : ' tenants', closed ? `, of which ${uncounted}` : null,
      beat && known(beat.rate) ? [', now ', h('strong', {}, num(beat.rate)), ' requests a second'] : null,
      beat && known(beat.slowest) ? [', 99 % of decisions within ', h('strong', {}, Number.isFinite(beat.slowest) ? `${num(1000 * beat.slowest)} ms` : 'more than the last bucket')] : null, '.'),
    warned.length ? h('section', { class: 'problem' }, h('h2', {}, 'To look at'),
      h('ul', {}, warned.flatMap((t) => alarms(t).map((text) => h('li', {}, id(t.name), ': ', text))))) : null,
    table({ id: 'tenants', name: 'tenants', caption: list.some((t) => holdout(t).rewards > 0) ? 'Mean reward since the beginning: of the policy (first colour) and of the holdout (second)' : 'Mean reward of the policy since the beginning', columns, rows: list }));
}

export function overview(page) {
  /* Made once: a town that is being played outlives the next look at the server. Loaded when it is opened. */
  const below = h('details', { class: 'welcome', id: 'begin', ontoggle: async (event) => {
    if (event.target !== below || below.dataset.asked) return;
    below.dataset.asked = 'true';
    below.append(...(await import('./welcome.js')).beginnings());
  } }, h('summary', {}, 'Play a town; three recipes'));
  return h('div', {}, h('h1', {}, 'Tenants'), page.live(() => load(page), (data) => {
    const shown = draw(data);
    if (shown.dataset.empty !== undefined && !below.dataset.asked) below.open = true;
    return shown;
  }, 5), below);
}
