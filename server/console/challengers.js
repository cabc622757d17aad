/* The race of other configurations beside the one in force: may I promote? */
import { h, id, button } from './dom.js';
import { get, call, of, mayManage, isShared } from './api.js';
import { table, interval, figure } from './table.js';
import { whisker, axis, span, lines, colour, legend, sameEnds } from './plot.js';
import { num, count, range, known, bytes } from './format.js';
import { change, notHere } from './change.js';

async function load(page) {
  const [race, tenant] = await Promise.all([get(`${of(page.tenant, 'challengers')}?history=1`, { signal: page.signal }), get(of(page.tenant), { signal: page.signal })]);
  return { race, tenant, isOwner: (await mayManage(page.tenant, { signal: page.signal })) && !isShared() };
}

const GUARDED = { go_on: 'go on', better: 'better', worse: 'worse' };

/** In words, and whether the numbers may be trusted at all. */
function judged(c, level) {
  if (c.stopped) return ['bad', `stopped: ${c.stopped}`];
  const guard = c.guardrail;
  if (guard && guard.verdict !== 'go_on') return [guard.verdict, `the guardrail has proved that it earns ${guard.verdict === 'better' ? 'more' : 'less'}: ${num(guard.difference.estimate)} ${range(guard.difference.lower, guard.difference.upper)} at every look`];
  if (!known(c.difference.estimate)) return ['', `nothing to tell yet: ${count(c.decisions)} decisions scored`];
  if (c.weights.lower > 1 || c.weights.upper < 1) return ['bad', 'the log cannot tell: the policy in force never shows some arms that this one would (weights are not about 1)'];
  if (c.ess < 100) return ['', `too few decisions tell something: worth ${num(c.ess)} of equal weight`];
  if (c.difference.lower > 0) return ['better', `earns more than the policy in force, at ${num(100 * level)} % for one look`];
  if (c.difference.upper < 0) return ['worse', `earns less than the policy in force, at ${num(100 * level)} % for one look`];
  return ['', 'no difference is proved yet'];
}

/** How the scores of each went, by the number of decisions that were scored; in that place all challengers can be compared. */
function course(list) {
  const most = Math.max(...list.map((c) => c.history.length));
  if (!(most > 1)) return null;
  const points = list.map((c) => c.history.map((p) => ({ ...p, x: p.decisions, y: p.difference.estimate, low: p.difference.lower, high: p.difference.upper })));
  const all = points.flat(), xs = [...new Set(all.map((p) => p.x))].sort((a, b) => a - b);
  const read = (i) => [`${count(xs[i])} decisions`, list.map((c, k) => [points[k].find((p) => p.x === xs[i]), c.name]).filter(([p]) => p).map(([p, name]) => [', ', id(name), ` ${num(p.y)} ${range(p.low, p.high)}`])];
  const rows = list.flatMap((c) => c.history.map((p) => ({ name: c.name, ...p })));
  return figure('Difference to the policy in force, as decisions were scored', h('div', {},
    legend(list.map((c, i) => ({ name: c.name, colour: colour(i), isId: true }))),
    lines('Difference over scored decisions', { series: points.map((of_, i) => ({ colour: colour(i), points: of_ })), x0: xs[0], x1: xs.at(-1), zero: true, isTime: false, ...limited(all) }, { xs, read }, 200)),
  table({ id: 'race-course', name: 'differences', caption: 'How the scores went; the intervals are of one look each', rows, columns: [
    { name: 'challenger', kind: 'id', value: (p) => p.name },
    { name: 'decisions', kind: 'count', value: (p) => p.decisions },
    { name: 'at (UTC)', kind: 'time', value: (p) => p.at },
    { name: 'difference', kind: 'num', value: (p) => p.difference.estimate },
    interval('interval', (p) => p.difference.lower, (p) => p.difference.upper),
    { name: 'its value', kind: 'num', value: (p) => p.snips.estimate },
    interval('interval ', (p) => p.snips.lower, (p) => p.snips.upper),
    { name: 'in force', kind: 'num', value: (p) => p.in_force.estimate },
    interval('interval  ', (p) => p.in_force.lower, (p) => p.in_force.upper),
    { name: 'weights', kind: 'num', value: (p) => p.weights.estimate },
    interval('interval   ', (p) => p.weights.lower, (p) => p.weights.upper),
    { name: 'worth', kind: 'num', value: (p) => p.ess }] }));
}

/** The ends of the picture: what the later half of the points needs, since the first intervals are of a few decisions and dwarf all others. */
function limited(all) {
  const later = all.filter((p) => p.x >= Math.max(...all.map((q) => q.x)) / 8);
  return sameEnds(later, true);
}

function draw(page, { race, tenant, isOwner }, again) {
  const { promotion, challengers: own } = tenant.configuration;
  const list = race.challengers;
  const back = isOwner && 'previous' in own && promotion.reason !== 'none' && promotion.reason !== 'rollback';
  const promote = (c) => change({ tenant: page.tenant, title: `Promote ${c.name}`, done: `${c.name} is in force.`,
    words: ['The configuration of ', id(c.name), ` comes into force in the place of version ${race.version}, which becomes the challenger `, id('previous'), '. It can be taken back.'],
    doIt: () => call('POST', of(page.tenant, 'promote'), { body: { challenger: c.name, version: race.version } }) }).then((made) => made && again());
  const rollBack = () => change({ tenant: page.tenant, title: 'Roll back', done: 'The previous configuration is in force again.',
    words: [`Version ${race.version} came from the challenger `, id(promotion.challenger ?? 'none'), '. The configuration before it comes into force again.'],
    doIt: () => call('POST', of(page.tenant, 'rollback'), { body: { version: race.version } }) }).then((made) => made && again());
  const differences = span(list.flatMap((c) => [c.difference.lower, c.difference.upper, c.difference.estimate]), 0);
  const weights = span(list.flatMap((c) => [c.weights.lower, c.weights.upper]), 1);
  return h('div', {},
    h('p', { class: 'lead' }, `Version ${race.version} is in force`, promotion.challenger ? [', promoted from ', id(promotion.challenger), ` (${promotion.reason})`] : '', '.', back ? [' ', button('Roll back', rollBack, { class: 'danger', id: 'rollback' })] : ''),
    notHere('A race of challengers, a promotion and a rollback'),
    list.length === 0 ? h('p', { class: 'none' }, 'No challengers. Declare some in the configuration (docs/CHALLENGERS.md); they learn beside the traffic and are scored on it.')
      : h('ul', { class: 'sentences', id: 'race' }, list.map((c) => {
        const [kind, words] = judged(c, race.level);
        return h('li', { class: kind }, id(c.name), ': ', words, '. ', isOwner && !c.stopped ? button('Promote', () => promote(c), { class: 'small', 'aria-label': `Promote ${c.name}` }) : '');
      })),
    list.length === 0 ? null : table({ id: 'scores', name: 'challengers', caption: `What each would have earned, on the decisions that the policy in force made; intervals of ${num(100 * race.level)} % for one look`, rows: list, columns: [
      { name: 'challenger', kind: 'id', value: (c) => c.name },
      { name: 'difference', kind: 'num', value: (c) => c.difference.estimate },
      interval('interval', (c) => c.difference.lower, (c) => c.difference.upper),
      { name: '', kind: 'plot', head: axis(differences), value: () => null, cell: (c) => whisker(differences, c.difference.estimate, c.difference.lower, c.difference.upper, 'c0', 0) },
      { name: 'weights (about 1?)', kind: 'num', value: (c) => c.weights.estimate },
      interval('interval ', (c) => c.weights.lower, (c) => c.weights.upper),
      { name: ' ', kind: 'plot', head: axis(weights), value: () => null, cell: (c) => whisker(weights, c.weights.estimate, c.weights.lower, c.weights.upper, 'c1', 1) },
      { name: 'worth', kind: 'num', value: (c) => c.ess },
      { name: 'guardrail', kind: 'word', value: (c) => c.guardrail?.verdict ?? null, cell: (c) => (c.guardrail ? GUARDED[c.guardrail.verdict] : '–') }] }),
    list.length === 0 ? null : course(list),
    list.length === 0 ? null : table({ id: 'values', name: 'values', caption: 'What these numbers rest on, and how far each has read the log', rows: list, columns: [
      { name: 'challenger', kind: 'id', value: (c) => c.name },
      { name: 'its value', kind: 'num', value: (c) => c.snips.estimate },
      interval('interval', (c) => c.snips.lower, (c) => c.snips.upper),
      { name: 'in force', kind: 'num', value: (c) => c.in_force.estimate },
      interval('interval ', (c) => c.in_force.lower, (c) => c.in_force.upper),
      { name: 'guarded difference', kind: 'num', value: (c) => c.guardrail?.difference.estimate ?? null },
      interval('holds always', (c) => c.guardrail?.difference.lower ?? null, (c) => c.guardrail?.difference.upper ?? null),
      { name: 'decisions', kind: 'count', value: (c) => c.decisions },
      { name: 'behind by', kind: 'count', value: (c) => c.lag },
      { name: 'open', kind: 'count', value: (c) => c.open },
      { name: 'no reward', kind: 'count', value: (c) => c.unrewarded },
      { name: 'learned', kind: 'count', value: (c) => c.learned },
      { name: 'memory', value: (c) => c.bytes, cell: (c) => bytes(c.bytes) }] }));
}

export function challengers(page) {
  return h('div', {}, h('h1', {}, 'Challengers of ', id(page.tenant)),
    page.renewed((live, again) => live(() => load(page), (data) => draw(page, data, again), 3)));
}
