/* Rewards over time: is it getting better, and for which arm, version or metric? Below, which arm leads, and what is proved of it. */
import { h, id, field, place } from './dom.js';
import { get, lines as linesOf, of } from './api.js';
import { table, interval, figure } from './table.js';
import { lines, stacks, legend, colour, whisker, axis, span, bar, sameEnds } from './plot.js';
import { num, count, percent, range, time, meanOf } from './format.js';
import { LINES, decisionsOf } from './log.js';
import { proved, measured } from './experiment.js';

const HOUR = 3600000;
const RANGES = [['auto', 'what shows most'], ['log', 'the newest decisions, one by one'], ['3', 'last 3 hours', 3 * HOUR], ['48', 'last 2 days', 48 * HOUR], ['720', 'last 30 days', 720 * HOUR], ['all', 'all that is kept', null]];
const BY = [['arm', 'by arm'], ['route', 'by route'], ['version', 'by version'], ['metric', 'by metric']];
const PANELS = 8, PARTS = 12; /* of a picture of courses; places in each */

/** Rows of the series, with the place in the picture at which each belongs. */
async function bySeries(page, choice, length) {
  const { signal, tenant } = page;
  const from = length ? Date.now() - length : 0;
  const series = async (step, by) => (await get(`${of(tenant, 'series')}?step=${step}&from=${from}${by ? `&by=${by}` : ''}`, { signal })).rows.map((r) => ({ ...r, x: Date.parse(r.at) }));
  let step = 'minute';
  let all = await series(step, null);
  if (length === null || length > 48 * HOUR || all.length > 300) {
    const hourly = await series('hour', null);
    if (hourly.length >= 4 || all.length === 0) [step, all] = ['hour', hourly]; /* else what began lately is seen better by minutes */
  }
  const [parts, routes] = await Promise.all([series(step, choice.by), series(step, 'route')]);
  return { all, parts, routes, step, wide: step === 'hour' ? HOUR : HOUR / 60 };
}

/** The same from the lines of the newest decisions, in thirty parts. */
async function byDecision(page, choice, aggregation) {
  const list = await linesOf(`${of(page.tenant, 'events')}?type=decided,rewarded,expired,configured&limit=${LINES}`, { signal: page.signal });
  const [older] = list.length ? await linesOf(`${of(page.tenant, 'events')}?type=configured&before=${list.at(-1).seq}&limit=1`, { signal: page.signal }) : [];
  const each = decisionsOf(list, aggregation, older?.version), wide = Math.max(1, Math.ceil(each.length / 30));
  const rows = (key) => {
    const found = new Map();
    each.forEach((d, i) => {
      const part = Math.floor(i / wide), name = JSON.stringify([part, key ? d[key] : null]);
      if (!found.has(name)) found.set(name, { x: (part + 0.5) * wide, from: part * wide + 1, at: d.at, ...(key ? { [key]: d[key] } : {}), decisions: 0, open: 0, rewards: 0, sum: 0, square_sum: 0 });
      const row = found.get(name);
      row.decisions++;
      if (d.reward === null) row.open++;
      else { row.rewards++; row.sum += d.reward; row.square_sum += d.reward ** 2; }
    });
    return [...found.values()];
  };
  return { all: rows(null), parts: rows(choice.by), routes: rows('route'), step: 'decision', wide };
}

async function load(page, choice) {
  const { signal, tenant } = page;
  const [stats, experiment, marks] = await Promise.all([
    get(of(tenant, 'stats'), { signal }), get(of(tenant, 'experiment'), { signal }),
    linesOf(`${of(tenant, 'events')}?type=configured&limit=50`, { signal })]);
  const length = RANGES.find(([name]) => name === choice.range)[2] ?? null;
  /* Lines of decisions have no values of metrics. */
  const isFolded = choice.by === 'metric';
  let seen = choice.range === 'log' && !isFolded ? null : await bySeries(page, choice, length);
  if (seen === null || (!isFolded && choice.range === 'auto' && seen.all.length < 6 && stats.decisions > 0)) seen = await byDecision(page, choice, marks[0]?.configuration.aggregation);
  return { stats, experiment, marks, by: choice.by, ...seen };
}

/* --- over time ------------------------------------------------------------------------------------------------ */

/** What a row of the picture is called. */
const called = (data, row) => (data.step === 'decision' ? `from decision ${count(row.from)}` : time(row.x));

/** Rows of one kind as points, each a mean with its interval. */
const points = (rows) => rows.map((r) => ({ x: r.x, row: r, ...meanOf(r.rewards, r.sum, r.square_sum) })).map((p) => ({ ...p, y: p.mean }));

function cumulative(rows) {
  let n = 0, sum = 0, squares = 0;
  return rows.map((r) => {
    n += r.rewards; sum += r.sum; squares += r.square_sum;
    const m = meanOf(n, sum, squares);
    return { x: r.x, y: m.mean, low: m.low, high: m.high, n };
  });
}

const when = (step) => (step === 'decision' ? [{ name: 'from decision', kind: 'count', value: (r) => r.from }] : [{ name: step, kind: 'time', value: (r) => r.at }]);

function course(data, ends) {
  const { all, marks, step } = data;
  const held = data.routes.filter((r) => r.route === 'holdout');
  const rows = held.length ? data.routes.filter((r) => r.route === 'policy') : all;
  const since = cumulative(rows), each = points(rows);
  const series = [{ colour: 'c0', points: each, bars: each.length < 40 }, { colour: 'c1', points: since, dashed: true }];
  const names = [{ name: step === 'decision' ? `each ${count(data.wide)} decisions` : `each ${step}`, colour: 'c0' }, { name: 'since the beginning of the picture', colour: 'c1' }];
  if (held.length) {
    for (const one of names) one.name = `policy, ${one.name}`;
    series.push({ colour: 'c2', points: cumulative(held), dashed: true });
    names.push({ name: 'holdout, likewise', colour: 'c2' });
  }
  const reader = { xs: each.map((p) => p.x), read: (i) => `${called(data, each[i].row)}: ${num(each[i].y)} ${range(each[i].low, each[i].high)} of ${count(each[i].row.rewards)} rewards; since the beginning ${num(since[i].y)} ${range(since[i].low, since[i].high)}` };
  const numbers = table({ id: 'course', name: 'rewards', caption: `${step === 'decision' ? 'Mean reward of the decisions from a number on' : `Mean reward by ${step} of the decision (UTC)`}${held.length ? ', of all routes' : ''}`, rows: all, columns: [
    ...when(step),
    { name: 'decisions', kind: 'count', value: (r) => r.decisions },
    { name: 'open', kind: 'count', value: (r) => r.open },
    { name: 'rewards', kind: 'count', value: (r) => r.rewards },
    { name: 'mean reward', kind: 'num', value: (r) => meanOf(r.rewards, r.sum, r.square_sum).mean },
    interval('95 %', (r) => meanOf(r.rewards, r.sum, r.square_sum).low, (r) => meanOf(r.rewards, r.sum, r.square_sum).high)] });
  return figure('Mean reward, with 95 % intervals', h('div', {}, legend(names),
    lines('Mean reward over time', { series, marks, ...ends }, reader)), numbers);
}

/** What a row is about: an arm, a route, a version or a metric; null for all that have no row of their own. By metric, the reward has none. */
const about = (by, row) => (by === 'metric' ? row.metric ?? 'reward' : by === 'version' && row.version !== null ? `version ${row.version}` : row[by]);

/** Those of the rows that have a name, with most decisions first. */
function mostFirst(by, rows) {
  const total = new Map();
  for (const r of rows) total.set(about(by, r), (total.get(about(by, r)) ?? 0) + r.decisions);
  return [...total].sort((a, b) => (a[0] === null) - (b[0] === null) || b[1] - a[1]).map(([name]) => name);
}

/** Neighbouring rows put together, so that at most PARTS of them lie between the ends of the picture: fewer and surer means. */
function pooled(rows, ends) {
  const wide = (ends.x1 - ends.x0) / PARTS, found = new Map();
  for (const r of rows) {
    const part = Math.floor((r.x - ends.x0) / wide);
    const have = found.get(part) ?? { from: r, to: r, xs: 0, decisions: 0, rewards: 0, sum: 0, square_sum: 0 };
    found.set(part, { ...have, to: r, xs: have.xs + r.x * r.decisions, decisions: have.decisions + r.decisions, rewards: have.rewards + r.rewards, sum: have.sum + r.sum, square_sum: have.square_sum + r.square_sum });
  }
  return [...found.values()].filter((p) => p.rewards > 0).map((p) => ({ ...p, x: p.xs / p.decisions, ...meanOf(p.rewards, p.sum, p.square_sum) }));
}

/** A small picture for each arm, version, route or metric: its mean over time with the interval. Means of rewards are all on one scale. */
function courses(data, choice, ends) {
  const names = mostFirst(choice.by, data.parts).filter((name) => name !== null);
  const panels = names.slice(0, PANELS).map((name, i) => ({ name, colour: colour(i), points: pooled(data.parts.filter((r) => about(choice.by, r) === name), ends) })).filter((p) => p.points.length > 0);
  if (panels.length === 0) return null;
  const scale = choice.by === 'metric' ? null : sameEnds(panels.flatMap((p) => p.points));
  const rows = panels.flatMap((p) => p.points.map((point) => ({ name: p.name, ...point })));
  const drawn = panels.map((p) => h('div', { class: 'panel' }, h('p', { class: 'panel-name' }, h('span', { class: `swatch ${p.colour}`, 'aria-hidden': 'true' }), id(p.name)),
    lines(`Mean over time, number ${panels.indexOf(p) + 1} of ${panels.length}`, { series: [{ colour: p.colour, bars: true, points: p.points.map((point) => ({ ...point, y: point.mean })) }], marks: data.marks, ...ends, ...scale },
      { xs: p.points.map((point) => point.x), read: (i) => `${called(data, p.points[i].from)}: ${num(p.points[i].mean)} ${range(p.points[i].low, p.points[i].high)} of ${count(p.points[i].rewards)}` }, 120)));
  const numbers = table({ id: 'courses', name: `means-by-${choice.by}`, caption: `Mean ${choice.by === 'metric' ? 'value' : 'reward'} by ${choice.by} over time, of at most ${PARTS} parts each`, rows, columns: [
    { name: choice.by, kind: 'id', value: (r) => r.name },
    ...when(data.step).map((c) => ({ ...c, name: c.name.startsWith('from') ? c.name : `from ${c.name}`, value: (r) => c.value(r.from) })),
    ...(data.step === 'decision' ? [] : [{ name: `to ${data.step}`, kind: 'time', value: (r) => r.to.at }]),
    { name: choice.by === 'metric' ? 'values' : 'rewards', kind: 'count', value: (r) => r.rewards },
    { name: 'mean', kind: 'num', value: (r) => r.mean },
    interval('95 %', (r) => r.low, (r) => r.high)] });
  return figure(`Mean ${choice.by === 'metric' ? 'value' : 'reward'} ${BY.find(([b]) => b === choice.by)[1]} over time, with 95 % intervals`, h('div', { class: 'panels', id: 'panels' }, drawn), numbers,
    names.length > PANELS ? h('p', { class: 'fine' }, `The ${PANELS} with most decisions, of ${count(names.length)}.`) : null);
}

function shares(data, choice, ends) {
  const { parts, marks, step } = data;
  const keys = mostFirst(choice.by, parts);
  const shown = keys.filter((k) => k !== null).slice(0, 8), rest = keys.length > shown.length;
  const slot = (name) => (shown.includes(name) ? shown.indexOf(name) : shown.length);
  const columns = new Map();
  for (const r of parts) {
    const column = columns.get(r.x) ?? { x: r.x, row: r, counts: new Array(shown.length + 1).fill(0) };
    column.counts[slot(about(choice.by, r))] += r.decisions;
    columns.set(r.x, column);
  }
  const list = [...columns.values()].map((c) => ({ ...c, n: c.counts.reduce((a, b) => a + b, 0) })).map((c) => ({ ...c, shares: c.counts.map((v) => v / c.n) }));
  const colours = [...shown.map((_, i) => colour(i)), 'cx'];
  const names = shown.map((name, i) => ({ name, colour: colour(i), isId: true }));
  if (rest) names.push({ name: choice.by === 'arm' ? 'all other arms' : 'all others', colour: 'cx' });
  const most = (c) => c.shares.map((v, k) => [v, k]).filter(([v]) => v > 0).sort((one, other) => other[0] - one[0]).slice(0, 4);
  const reader = { xs: list.map((c) => c.x), read: (i) => [`${called(data, list[i].row)}: ${count(list[i].n)} decisions`, most(list[i]).map(([v, k]) => [', ', id(names[k].name), ` ${percent(v)}`])] };
  const numbers = table({ id: 'parts', name: `traffic-by-${choice.by}`, caption: `Decisions and rewards by ${step} and ${choice.by}`, rows: parts, columns: [
    ...when(step),
    { name: choice.by, kind: 'id', value: (r) => about(choice.by, r) ?? 'all others' },
    { name: 'decisions', kind: 'count', value: (r) => r.decisions },
    { name: 'rewards', kind: 'count', value: (r) => r.rewards },
    { name: 'mean reward', kind: 'num', value: (r) => meanOf(r.rewards, r.sum, r.square_sum).mean },
    interval('95 %', (r) => meanOf(r.rewards, r.sum, r.square_sum).low, (r) => meanOf(r.rewards, r.sum, r.square_sum).high)] });
  return figure(`Share of decisions ${BY.find(([b]) => b === choice.by)[1]}`, h('div', {}, legend(names),
    stacks(`Share of decisions by ${choice.by} over time`, { columns: list, colours, marks, ...ends, step: data.wide }, reader)), numbers);
}

/* --- the leaderboard ------------------------------------------------------------------------------------------ */

/** Arms of the statistics, the best first. */
const armsOf = ({ stats }) => stats.arms.map((a) => ({ arm: a.arm, decisions: a.decisions, rewards: a.rewards, mean: a.mean_reward, low: a.lower, high: a.upper }))
  .sort((a, b) => (b.mean ?? -Infinity) - (a.mean ?? -Infinity));

function leaders(data) {
  const rows = armsOf(data);
  const all = data.stats.decisions;
  const scale = span(rows.flatMap((r) => [r.mean, r.low, r.high]));
  return h('section', {}, h('h2', {}, 'Arms, by what they earned where they were shown'),
    h('p', { class: 'fine' }, 'Since the beginning. An arm is shown to those who probably like it, so its mean does not say what it earns of everybody: that is what an experiment says.'),
    table({ id: 'leaders', name: 'arms', caption: 'Arms, by mean reward', rows, columns: [
      { name: 'arm', kind: 'id', value: (r) => r.arm },
      { name: 'mean reward', kind: 'num', value: (r) => r.mean },
      interval('95 %', (r) => r.low, (r) => r.high),
      { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (r) => whisker(scale, r.mean, r.low, r.high) },
      { name: 'shown', kind: 'count', value: (r) => r.decisions },
      { name: 'share', kind: 'percent', value: (r) => (all ? r.decisions / all : null), cell: (r) => h('span', { class: 'with-bar' }, bar(all ? r.decisions / all : 0), percent(all ? r.decisions / all : null)) },
      { name: 'rewards', kind: 'count', value: (r) => r.rewards }] }));
}

/* --- the screen ------------------------------------------------------------------------------------------------ */

function headline({ stats }) {
  const { policy, holdout, stopped } = stats.routes;
  const of_ = (route) => [h('strong', {}, num(route.mean_reward)), ' ', range(route.lower, route.upper)];
  return h('p', { class: 'lead', id: 'headline' },
    'The policy earns ', of_(policy), ` a decision, over ${count(policy.rewards)} rewards`,
    holdout.rewards > 0 ? [`; the holdout `, of_(holdout), ` over ${count(holdout.rewards)}`] : null,
    stopped.rewards > 0 ? ['; while stopped ', of_(stopped)] : null,
    `. ${count(stats.pending)} decisions are open: a reward may come, or change.`);
}

function draw(data, choice) {
  const { all, marks, step, wide } = data;
  const xs = all.map((r) => r.x);
  const isTime = step !== 'decision';
  const ends = xs.length ? { x0: isTime ? Math.min(...xs) - wide : 0, x1: Math.max(...xs) + wide / (isTime ? 1 : 2), isTime } : null;
  const changed = marks.map((m) => ({ at: isTime ? Date.parse(m.at) : all.findLast((r) => r.at <= m.at)?.x - wide / 2, version: m.version, when: m.at })).filter((m) => ends && m.at > ends.x0 && m.at <= ends.x1);
  const marked = { ...data, marks: changed.map((m) => m.at) };
  return h('div', {},
    headline(data),
    data.stats.warnings.map((text) => h('p', { class: 'problem' }, text)),
    ends ? [course(marked, ends), courses(marked, choice, ends), choice.by === 'metric' ? null : shares(marked, choice, ends)] : h('p', { class: 'none' }, 'No decisions in this time.'),
    changed.length ? h('p', { class: 'fine' }, 'Dashed lines: the configuration changed (', changed.map((m, i) => [i ? ', ' : '', `version ${m.version}, ${time(m.when)}`]), ').') : null,
    data.experiment.experiment ? proved(data.experiment) : null,
    leaders(data),
    data.stats.metrics ? measured(data.stats.metrics) : null,
    data.experiment.experiment ? null : h('p', { class: 'fine' }, `No experiment: ${data.experiment.why ?? data.experiment.state}. With one, this page says which arm is proved to be better (docs/EXPERIMENTS.md).`));
}

export function traffic(page) {
  const choice = { range: RANGES.some(([r]) => r === page.rest[0]) ? page.rest[0] : 'auto', by: BY.some(([b]) => b === page.rest[1]) ? page.rest[1] : 'arm' };
  const turn = (change) => { Object.assign(choice, change); location.hash = place(['t', page.tenant, 'traffic', choice.range, choice.by]); };
  return h('div', {}, h('h1', {}, 'Rewards of ', id(page.tenant)),
    h('div', { class: 'controls' },
      field('Time', { chosen: choice.range, onchange: (e) => turn({ range: e.target.value }) }, RANGES),
      field('Of what', { chosen: choice.by, onchange: (e) => turn({ by: e.target.value }) }, BY)),
    page.live(() => load(page, choice), (data) => draw(data, choice), 10));
}
