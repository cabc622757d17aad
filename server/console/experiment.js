/* What an experiment has proved: of the reward, of each metric beside it, and of the policy as a whole. */
import { h, id } from './dom.js';
import { table, interval } from './table.js';
import { whisker, axis, span, bar } from './plot.js';
import { num, count, percent } from './format.js';

const VERDICTS = { go_on: 'go on', better: 'better', worse: 'worse', no_difference: 'no difference', void: 'void', changed: 'changed', harmed: 'harmed', holds: 'holds' };
/* As the list of sentences is coloured: what is good, and what is not. */
const TONES = { better: 'better', holds: 'better', worse: 'worse', harmed: 'worse', void: 'void' };

const scaleOf = (differences) => span(differences.filter(Boolean).flatMap((d) => [d.low, d.high, d.estimate]), 0);

/** Columns that tell of a difference: d(row) is it, or null where there is none. */
const differing = (d, scale) => [
  { name: 'difference', kind: 'num', value: (r) => d(r)?.estimate ?? null },
  interval('holds always', (r) => d(r)?.low ?? null, (r) => d(r)?.high ?? null),
  { name: '', kind: 'plot', ...(typeof scale === 'function' ? {} : { head: axis(scale) }), value: () => null, cell: (r) => (d(r) ? whisker(typeof scale === 'function' ? scale(r) : scale, d(r).estimate, d(r).low, d(r).high, 'c0', 0) : '–') },
  { name: 'lift', kind: 'percent', value: (r) => d(r)?.lift ?? null }];
const liftHolds = (d) => interval('its interval', (r) => d(r)?.lift_lower ?? null, (r) => d(r)?.lift_upper ?? null, percent);

function byArm(e) {
  const against = new Map(e.differences.map((d) => [d.arm, d]));
  const rows = e.arms.map((a) => ({ ...a, difference: against.get(a.arm) })).sort((a, b) => b.p_best - a.p_best);
  return table({ id: 'proved', name: 'experiment', caption: `Arms of the experiment; ${count(e.decisions.counted)} decisions counted, ${count(e.decisions.waiting)} wait for their reward`, rows, columns: [
    { name: 'arm', kind: 'id', value: (r) => r.arm },
    { name: 'probably best', kind: 'percent', value: (r) => r.p_best, cell: (r) => h('span', { class: 'with-bar' }, bar(r.p_best), percent(r.p_best)) },
    { name: 'verdict', kind: 'word', value: (r) => (r.difference ? VERDICTS[r.difference.verdict] : 'baseline') },
    ...differing((r) => r.difference, scaleOf(e.differences)), liftHolds((r) => r.difference),
    { name: 'loss if chosen', kind: 'num', value: (r) => r.expected_loss }] });
}

/** What each arm earned by itself: of the policy, and of the holdout where there is one. */
function means(e) {
  const scale = span(e.arms.flatMap((a) => [a.policy.low, a.policy.high, a.policy.mean])), hasHoldout = e.arms.some((a) => a.holdout.decisions > 0);
  const side = (name, of_, end) => [
    { name, kind: 'num', value: (a) => of_(a).mean }, interval(`holds always${end}`, (a) => of_(a).low, (a) => of_(a).high),
    { name: `decisions${end}`, kind: 'count', value: (a) => of_(a).decisions }];
  return table({ id: 'proved-means', name: 'experiment-means', caption: `Mean reward of the arms where the policy showed them${hasHoldout ? ', and where the holdout did' : ''}`, rows: e.arms, columns: [
    { name: 'arm', kind: 'id', value: (a) => a.arm },
    ...side('mean reward', (a) => a.policy, ''),
    { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (a) => whisker(scale, a.policy.mean, a.policy.low, a.policy.high) },
    ...(hasHoldout ? side('holdout', (a) => a.holdout, ' ') : [])] });
}

/** The policy against the holdout, by the reward and by each metric that is compared. */
function byPolicy(e) {
  const rows = [{ of: null, difference: e.policy }, ...(e.metrics ?? []).map((m) => ({ of: m.metric, difference: m.policy }))].filter((r) => r.difference);
  if (rows.length === 0) return null;
  return table({ id: 'against-holdout', name: 'policy', caption: 'The policy against the holdout, by the first decision of each user', rows, columns: [
    { name: 'of', kind: 'id', value: (r) => r.of ?? 'reward', cell: (r) => (r.of === null ? 'reward' : id(r.of)) },
    { name: 'verdict', kind: 'word', value: (r) => VERDICTS[r.difference.verdict] },
    ...differing((r) => r.difference, (r) => scaleOf([r.difference])), liftHolds((r) => r.difference),
    { name: 'decisions', kind: 'count', value: (r) => r.difference.decisions }] });
}

/** Each metric by arm. A metric has units of its own, so pictures of one alone have a common scale. */
function byMetric(e) {
  const rows = e.metrics.flatMap((m) => m.arms.map((a) => ({ metric: m, ...a, difference: m.differences.find((d) => d.arm === a.arm) })));
  const scales = new Map(e.metrics.map((m) => [m, scaleOf(m.differences)]));
  const told = e.metrics.flatMap((m) => [...m.differences.map((d) => [id(d.arm), d]), ...(m.policy ? [['the policy', m.policy]] : [])].filter(([, d]) => d.verdict !== 'go_on').map(([who, d]) => ({ m, who, d })));
  return h('section', {}, h('h3', {}, 'What it does to the metrics'),
    told.length ? h('ul', { class: 'sentences', id: 'metric-sentences' }, told.map(({ m, who, d }) => h('li', { class: TONES[d.verdict] ?? '' }, id(m.metric), ', ', who, ': ', id(d.sentence))))
      : h('p', { class: 'fine' }, 'Of no metric is anything proved yet.'),
    e.changes ? h('p', { class: 'fine', id: 'changes' }, `Of ${count(e.changes.tests)} differences that no guardrail watches, ${count(e.changes.found)} ${e.changes.found === 1 ? 'is' : 'are'} told as ${e.changes.found === 1 ? 'a change' : 'changes'}.`) : null,
    table({ id: 'metrics', name: 'metrics', caption: 'Metrics by arm: the mean of each, and its difference to the baseline', rows, columns: [
      { name: 'metric', kind: 'id', value: (r) => r.metric.metric },
      { name: 'arm', kind: 'id', value: (r) => r.arm },
      { name: 'verdict', kind: 'word', value: (r) => (r.difference ? VERDICTS[r.difference.verdict] : 'baseline') },
      ...differing((r) => r.difference, (r) => scales.get(r.metric)),
      { name: 'mean', kind: 'num', value: (r) => r.policy.mean },
      interval('holds always ', (r) => r.policy.low, (r) => r.policy.high),
      { name: 'decisions', kind: 'count', value: (r) => r.policy.decisions },
      { name: 'role', kind: 'word', value: (r) => r.metric.role },
      { name: 'harm', kind: 'num', value: (r) => r.metric.harm }] }),
    [...new Set(e.metrics.map((m) => m.statement))].map((text) => h('p', { class: 'fine' }, text)));
}

/** Of an experiment that runs. */
export function proved({ experiment: e }) {
  const baseline = e.arms.find((a) => !e.differences.some((d) => d.arm === a.arm)).arm;
  return h('section', {},
    h('h2', {}, 'What is proved'),
    e.traffic.void ? h('p', { class: 'problem' }, 'The traffic does not match its propensities: nothing below counts.') : null,
    e.advice ? h('p', { class: 'lead', id: 'advice' }, e.advice) : null,
    h('ul', { class: 'sentences', id: 'sentences' }, e.differences.map((d) => h('li', { class: TONES[d.verdict] ?? '' }, id(d.arm), ` against `, id(baseline), ': ', id(d.sentence))),
      e.policy ? h('li', { class: TONES[e.policy.verdict] ?? '' }, 'The policy against the holdout: ', e.policy.sentence) : null),
    byArm(e), means(e), byPolicy(e), e.metrics ? byMetric(e) : null,
    h('p', { class: 'fine' }, e.statement, ' ', e.betting_odds));
}

/** What was told of each metric: counts and means of all of it, which have no interval. */
export const measured = (metrics) => h('section', {}, h('h2', {}, 'Metrics beside the reward'),
  table({ id: 'measured', name: 'measured', caption: 'All values that came, since the beginning', rows: metrics, columns: [
    { name: 'metric', kind: 'id', value: (m) => m.metric },
    { name: 'values', kind: 'count', value: (m) => m.values },
    { name: 'mean', kind: 'num', value: (m) => m.mean }] }));
