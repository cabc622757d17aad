/* One decision: why this arm for this user? Of the log, by its id; or of now, by a request that records nothing. */
import { h, id, to, field, area, place } from './dom.js';
import { get, call, lines as linesOf, of } from './api.js';
import { table, interval } from './table.js';
import { whisker, axis, span, bar } from './plot.js';
import { num, count, time, duration, known, meanOf } from './format.js';
import { LINES, decisionsOf, newestContext } from './log.js';
import { ask, taught, untold } from './taught.js';
import { askMoved, moved } from './moved.js';

const PREFILLED = 20; /* arms of the statistics, where there is no catalogue to choose from */

/* --- what a model said ----------------------------------------------------------------------------------------- */

/** The candidates of an answer of /select: what is expected of each, the bonus for what is not known, the draw. */
function candidates(ranking, drawn) {
  const scale = span(ranking.flatMap((r) => [r.mean, r.lower, r.upper, r.score]));
  const columns = [
    { name: 'arm', kind: 'id', value: (r) => r.arm, cell: (r) => [id(r.arm), r.arm === drawn ? [' ', h('strong', { class: 'drawn' }, '← drawn')] : ''] },
    { name: 'mean', kind: 'num', value: (r) => r.mean ?? null },
    interval('bounds', (r) => r.lower ?? null, (r) => r.upper ?? null),
    { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (r) => (known(r.mean) ? whisker(scale, r.mean, r.lower, r.upper, r.arm === drawn ? 'c1' : 'c0') : '–') },
    { name: 'sd', kind: 'num', value: (r) => r.sd ?? null },
    { name: 'bonus', kind: 'num', value: (r) => (known(r.mean) ? r.score - r.mean : null) },
    { name: 'score', kind: 'num', value: (r) => r.score ?? null },
    { name: 'propensity', kind: 'num', value: (r) => r.propensity, cell: (r) => h('span', { class: 'with-bar' }, bar(r.propensity, r.arm === drawn ? 'c1' : 'c0'), num(r.propensity)) },
  ];
  return table({ id: 'candidates', name: 'candidates', caption: 'Candidates: what the model expected of each, and how probably each was drawn', columns, rows: ranking, mark: (r) => r.arm === drawn });
}

function why(answer) {
  const drawn = answer.ranking.find((r) => r.arm === answer.arm);
  const best = answer.ranking.filter((r) => known(r.mean)).sort((a, b) => b.mean - a.mean)[0];
  if (!drawn || !best) return h('p', {}, 'The model was not asked.');
  if (answer.ranking.length === 1) return h('p', {}, `The model expected ${num(drawn.mean)} of it, give or take ${num(drawn.sd)}. Of a decision the log keeps the arms that were shown; what it would decide now is told of all candidates.`);
  if (drawn === best) return h('p', {}, 'The model expects most of ', id(drawn.arm), `: ${num(drawn.mean)}, give or take ${num(drawn.sd)}.`);
  return h('p', {}, 'The model expects most of ', id(best.arm), ` (${num(best.mean)}, give or take ${num(best.sd)}); `, id(drawn.arm),
    ` was drawn to learn more, or by chance: it is expected to earn ${num(drawn.mean)}, give or take ${num(drawn.sd)}.`);
}

/** Who taught the model what it expects of the arm that is chosen, at first the one drawn; and which of the features that were named moved it. */
function teachers(page, question, answer) {
  const { user, context, candidates: own } = question;
  const host = h('div', {}), features = h('div', {});
  let asking = new AbortController();
  const show = async (arm) => {
    asking.abort();
    asking = new AbortController();
    const signal = AbortSignal.any([asking.signal, page.signal]);
    const asked = own?.find((c) => c.id === arm) ?? arm;
    const put = async (place, what, refused) => {
      try {
        place.replaceChildren(await what());
      } catch (fault) {
        if (fault.name !== 'AbortError') place.replaceChildren(refused(fault));
      }
    };
    const isNamed = [context, asked.features].some((one) => one && !Array.isArray(one));
    await Promise.all([put(host, async () => taught(page.tenant, user, await ask(page.tenant, user, asked, context, signal), context), (fault) => untold(page, fault)),
      isNamed ? put(features, async () => moved(await askMoved(page.tenant, user, asked, context, signal)), page.refuse) : null]);
  };
  show(answer.arm);
  return h('section', { id: 'teachers' }, h('h3', {}, 'Who taught the model this?'),
    h('div', { class: 'controls' }, field('Arm', { name: 'taught', chosen: answer.arm, onchange: (event) => show(event.target.value) }, answer.ranking.map((r) => [r.arm, r.arm]))), host, features);
}

/** Users near by who were shown the arm, with what they gave for it: what the graph carries to this user. */
function friends(page, user, arm) {
  const place = h('details', { id: 'friends', open: true, ontoggle: async () => {
    if (place.dataset.asked) return;
    place.dataset.asked = 'true';
    try {
      place.append(await friendsTable(page, user, arm));
    } catch (fault) {
      if (fault.name !== 'AbortError') place.append(page.refuse(fault));
    }
  } }, h('summary', {}, 'Who near by was shown ', id(arm), '?'));
  return place;
}

async function friendsTable(page, user, arm) {
  const { signal, tenant } = page;
  const [near, list, [line]] = await Promise.all([
    get(`${of(tenant, 'graph', 'near')}?user=${encodeURIComponent(user)}&hops=2&limit=300`, { signal }),
    linesOf(`${of(tenant, 'events')}?type=decided,rewarded,expired,observed&limit=${LINES}`, { signal }),
    linesOf(`${of(tenant, 'events')}?type=configured&limit=1`, { signal })]);
  const given = new Map();
  const take = (one, reward) => given.set(one, [...(given.get(one) ?? []), reward]);
  for (const d of decisionsOf(list, line?.configuration.aggregation)) if (d.arm === arm && d.reward !== null) take(d.user, d.reward);
  for (const e of list) if (e.type === 'observed' && e.arm === arm) take(e.user, e.reward);
  const rows = near.users.filter((u) => given.has(u.id)).map((u) => {
    const all = given.get(u.id);
    return { ...u, ...meanOf(all.length, all.reduce((a, r) => a + r, 0), all.reduce((a, r) => a + r * r, 0)) };
  }).sort((a, b) => (b.kernel ?? -1) - (a.kernel ?? -1));
  const scale = span(rows.flatMap((r) => [r.mean, r.low, r.high]));
  return table({ id: 'near-by', name: 'friends', rows, none: 'Nobody near by, as far as these lines go.',
    caption: `Of ${count(near.users.length)} users within two edges, by the newest ${count(Math.min(LINES, list.length))} lines of the log; the larger the kernel, the more a reward there counts here`, columns: [
      { name: 'user', kind: 'id', value: (u) => u.id, cell: (u) => to(['t', tenant, 'decision', 'now', u.id], id(u.id)) },
      { name: 'edges away', kind: 'count', value: (u) => u.hops },
      { name: 'kernel', kind: 'num', value: (u) => u.kernel },
      { name: 'rewards', kind: 'count', value: (u) => u.n },
      { name: 'their mean', kind: 'num', value: (u) => u.mean },
      interval('95 %', (u) => u.low, (u) => u.high),
      { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (u) => whisker(scale, u.mean, u.low, u.high) }] });
}

/* --- of the log ------------------------------------------------------------------------------------------------ */

/** A value of a metric; where the metric adds up, what it has come to. */
const valueOf = (r, value) => [id(r.metric), ` = ${num(value)}`, known(r.total) ? ` (${num(r.total)} in all)` : null];

/** One line of what was told of a decision. `rewarded` is learned; with a metric it is one of a weighted sum. */
function lineOf(r, story) {
  const begun = story.decided ? Date.parse(story.decided.at) : null;
  const isLearned = r.type === 'rewarded';
  return [
    r.type === 'measured' ? ['Measured ', valueOf(r, r.reward)] : r.metric ? valueOf(r, r.value) : `Reward ${num(r.reward)}`,
    r.arm && r.arm !== story.arm ? [' for ', id(r.arm)] : null,
    begun ? ` after ${duration(Date.parse(r.at) - begun)}` : null,
    isLearned && r.metric ? `, which changed the reward by ${num(r.reward)}` : null,
    r.type === 'late' ? ' (late: not learned)' : r.late ? ' (late: it does not count)' : null, '. '];
}

/** What came of it. Under the aggregation `sum` rewards of an arm add up. */
function outcome(story, aggregation) {
  const learned = story.rewards.filter((r) => r.type === 'rewarded'), sums = new Map();
  for (const r of learned) sums.set(r.arm ?? story.arm, [...(sums.get(r.arm ?? story.arm) ?? []), r.reward]);
  const totals = [...sums].filter(([, all]) => aggregation === 'sum' && all.length > 1)
    .map(([arm, all]) => [`Its reward adds up to ${num(all.reduce((a, r) => a + r, 0))}`, sums.size > 1 ? [' for ', id(arm)] : null, '. ']);
  const byDefault = story.expired?.reward;
  const none = learned.length > 0 ? null
    : story.state !== 'expired' ? 'It waits for its reward. '
    : `Its window has closed without a reward${known(byDefault) ? `; the default one, ${num(byDefault)}, was learned` : ''}. `;
  return h('span', { id: 'outcome' }, none, story.rewards.map((r) => lineOf(r, story)), totals);
}

async function storyOf(page, decision) {
  const { signal, tenant } = page;
  const [story, { configuration }] = await Promise.all([get(of(tenant, 'decisions', decision), { signal }), get(of(tenant), { signal })]);
  const { decided, answer } = story;
  return h('section', { id: 'story' },
    h('h2', {}, 'Decision ', id(story.decision)),
    h('p', { class: 'lead' }, id(story.arm ?? '–'), ' for ', id(story.user ?? '–'),
      decided ? [`, with propensity `, h('strong', {}, num(decided.propensity)), `, at ${time(decided.at)}`] : null,
      story.version ? `, by version ${story.version} of the configuration` : null, '. ', outcome(story, configuration.aggregation)),
    decided?.route && decided.route !== 'policy' ? h('p', {}, `Not the policy decided, but: ${decided.route}.`) : null,
    answer ? [why(answer), candidates(answer.ranking, answer.arm)] : decided ? h('p', {}, `The mean that the model expected of it then: ${known(decided.mean) ? num(decided.mean) : 'not told'}. The answer itself is kept of decisions that their caller has named.`) : null,
    decided?.context?.length ? h('p', { class: 'fine' }, `Context: [${decided.context.map(num).join(', ')}]`) : null,
    story.user && story.decided ? h('p', {}, to(['t', page.tenant, 'decision', 'now', story.user], 'What would it decide now?'), ' ', to(['t', page.tenant, 'neighbours', story.user], 'Who is near?')) : null);
}

/* --- of now ---------------------------------------------------------------------------------------------------- */

async function now(page, question) {
  const { user, context, candidates: own } = question;
  const body = { user, explain: true, dry_run: true, ...(context ? { context } : {}), ...(own ? { candidates: own } : {}) };
  const answer = await call('POST', '/select', { tenant: page.tenant, body, signal: page.signal });
  return h('section', { id: 'now' }, h('h2', {}, 'Now, for ', id(user)),
    h('p', { class: 'lead' }, id(answer.arm), ' would be shown, with propensity ', h('strong', {}, num(answer.propensity)),
      answer.route && answer.route !== 'policy' ? ` (${answer.route})` : '', `. The model has learned from ${count(answer.model.events)} rewards. Nothing is recorded.`),
    why(answer), candidates(answer.ranking, answer.arm), known(answer.ranking[0]?.mean) ? teachers(page, question, answer) : null, friends(page, user, answer.arm));
}

/* --- what is asked ------------------------------------------------------------------------------------------------ */

/** A context as it is written: an object of named features, or numbers with commas between; null where there is none. */
const contextOf = (text) => (text.trim() === '' ? null : JSON.parse(/^\s*[{[]/.test(text) ? text : `[${text}]`));
const written = (context) => (context === null ? '' : Array.isArray(context) ? context.join(', ') : JSON.stringify(context));

/** One arm a line; with features of its own, as the API has it, where the tenant's arms have some. */
const candidatesOf = (text, hasFeatures) => text.split('\n').filter((line) => line !== '').map((line) => (hasFeatures && line.startsWith('{') ? JSON.parse(line) : line));

/** What the address asks: `now`, a user, a context (JSON), candidates (JSON). */
function questionOf([, user, context, own]) {
  return { user, context: context ? JSON.parse(context) : null, candidates: own ? JSON.parse(own) : null };
}

/** What the tenant asks of a question: a context or not, candidates or not (null: its catalogue has them). */
async function needsOf(page) {
  const { signal, tenant } = page;
  const [{ configuration }, { arms }] = await Promise.all([get(of(tenant), { signal }), get(of(tenant, 'arms'), { signal })]);
  const shown = arms.some((a) => a.active) ? null : (await get(of(tenant, 'stats'), { signal })).arms.sort((a, b) => b.decisions - a.decisions).slice(0, PREFILLED).map((a) => a.arm);
  return { configuration, shown };
}

/** What is left open is taken from what was before: the arms that were shown, the user's newest context. */
async function completed(page, question, { configuration: c, shown }) {
  if (!question.candidates && shown?.length && !(c.arm_dim > 0)) question.candidates = shown;
  if (!question.context && c.context_dim > 0) question.context = await newestContext(page.tenant, question.user, page.signal);
  return question;
}

/** The fields of a question: what the tenant knows by itself is not asked. */
function asking(page, question, { configuration: c, shown }) {
  const { tenant } = page, hasFeatures = c.arm_dim > 0;
  const lines_ = (question?.candidates ?? shown ?? []).map((one) => (typeof one === 'string' ? one : JSON.stringify(one)));
  const said = h('div', {});
  const go = (event) => {
    event.preventDefault();
    const form = event.target.elements;
    if (!form.user.value) return;
    try {
      const context = contextOf(form.context?.value ?? ''), own = candidatesOf(form.candidates?.value ?? '', hasFeatures);
      const more = [context === null ? 'null' : JSON.stringify(context), ...(own.length ? [JSON.stringify(own)] : [])];
      location.hash = place(['t', tenant, 'decision', 'now', form.user.value, ...(more.join() === 'null' ? [] : more)]);
    } catch (fault) {
      if (!(fault instanceof SyntaxError)) throw fault;
      said.replaceChildren(h('p', { class: 'problem', role: 'alert' }, 'The context is neither a list of numbers nor an object of named features, or a candidate is no JSON.'));
    }
  };
  return h('form', { onsubmit: go, id: 'ask', class: 'controls' }, field('User', { name: 'user', value: question?.user ?? '' }),
    c.features ? area('Context: named features', { name: 'context', rows: 2, placeholder: '{"device": "phone"}', value: written(question?.context ?? null) })
      : c.context_dim > 0 || question?.context ? field('Context', { name: 'context', placeholder: '0.1, 0.7', value: written(question?.context ?? null) }) : null,
    shown || question?.candidates ? area(hasFeatures ? 'Candidates, one a line: names, or {"id": …, "features": …}' : 'Candidates, one a line', { name: 'candidates', rows: Math.min(6, Math.max(2, lines_.length)), value: lines_.join('\n') }) : null,
    h('button', { type: 'submit' }, 'Ask now'), said);
}

/* --- the screen ------------------------------------------------------------------------------------------------ */

async function newest(page) {
  const list = await linesOf(`${of(page.tenant, 'events')}?type=decided&limit=20`, { signal: page.signal });
  return { list };
}

export async function decision(page) {
  const [first, user] = page.rest;
  const needs = await needsOf(page);
  let shown = null, question = null;
  try {
    if (first === 'now' && user) question = await completed(page, questionOf(page.rest), needs);
    if (question) shown = await now(page, question);
    else if (first === 'id' && user) shown = await storyOf(page, user);
  } catch (fault) {
    if (fault.name === 'AbortError' || fault.status === 401) throw fault;
    shown = fault instanceof SyntaxError ? h('p', { class: 'problem' }, 'The address holds no JSON where a context or candidates should stand.') : page.refuse(fault);
  }
  const lookUp = (event) => {
    event.preventDefault();
    const wanted = event.target.elements.decision.value;
    if (wanted) location.hash = place(['t', page.tenant, 'decision', 'id', wanted]);
  };
  return h('div', {}, h('h1', {}, 'A decision of ', id(page.tenant)),
    h('div', { class: 'controls' },
      h('form', { onsubmit: lookUp, id: 'by-id', class: 'controls' }, field('Decision', { name: 'decision', value: first === 'id' ? user : '' }), h('button', { type: 'submit' }, 'Look up')),
      asking(page, question, needs)),
    shown,
    page.live(() => newest(page), ({ list }) => table({ id: 'newest', name: 'decisions', caption: 'The newest decisions', rows: list, none: 'There are no decisions yet.', columns: [
      { name: 'decision', kind: 'id', value: (d) => d.decision, cell: (d) => to(['t', page.tenant, 'decision', 'id', d.decision], id(d.decision)) },
      { name: 'at (UTC)', kind: 'time', value: (d) => d.at },
      { name: 'user', kind: 'id', value: (d) => d.user, cell: (d) => to(['t', page.tenant, 'decision', 'now', d.user], id(d.user)) },
      { name: 'arm', kind: 'id', value: (d) => d.arm },
      { name: 'propensity', kind: 'num', value: (d) => d.propensity },
      { name: 'route', value: (d) => d.route ?? 'policy' }] }), 10, 'decided'));
}
