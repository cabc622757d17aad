/* What would other policies have earned? A job over the tenant's own log, beside the traffic: begun here, watched,
 * cancelled, and its result with intervals and in words. */
import { h, id, to, button, field, place } from './dom.js';
import { get, call, of, mayManage, isShared, Problem } from './api.js';
import { table, interval, figure } from './table.js';
import { whisker, axis, span, histogram } from './plot.js';
import { num, count, percent, range, time, known } from './format.js';
import { change, notHere } from './change.js';
import { told } from './told.js';

const ESTIMATORS = [['dr', 'doubly robust'], ['snips', 'importance weights, self-normalised'], ['ips', 'importance weights'], ['clipped_ips', 'clipped weights'], ['replay', 'replay of decisions that agree']];
const WHOLE = [['ips_by_slot', 'importance weights by slot'], ['pseudo_inverse', 'pseudo-inverse of the slots']];
const hasSlots = (p) => p.most_slots > 1; /* else the estimators of whole decisions are ips */
const PRESETS = ['laplaced', 'ts', 'ucb', 'random', 'lin-ucb', 'gp-ucb', 'lk-gp-ucb', 'ek-ucb'];

/** Evaluations that are kept, the newest first; null: this server has none. A route that is not there is another kind of 404. */
async function kept(page) {
  try {
    return (await get(of(page.tenant, 'evaluations'), { signal: page.signal })).evaluations;
  } catch (fault) {
    if (!(fault instanceof Problem) || fault.type !== '/problems/no-route') throw fault;
    return null;
  }
}

const nameOf = (p) => (typeof p === 'string' ? p : p.arm !== undefined ? `arm:${p.arm}` : p.name ?? p.configuration.algorithm ?? 'configuration');
const namesOf = (list) => list.map((p, i) => [i ? ', ' : '', id(nameOf(p))]);

/* --- a new one ------------------------------------------------------------------------------------------------------- */

/** An event's number, or a time that is UTC where it says nothing else. */
function end(text) {
  if (text.trim() === '') return undefined;
  if (/^\d+$/.test(text.trim())) return Number(text);
  const at = new Date(/[zZ]|[+-]\d\d:?\d\d$/.test(text) ? text : `${text.trim().replace(' ', 'T')}Z`);
  if (Number.isNaN(at.getTime())) throw new Problem(400, { title: 'No time', detail: `“${text}” is neither the number of an event nor a time such as 2026-11-26 09:00.` });
  return at.toISOString();
}

function wish(form, tenant) {
  const policies = ['logged', 'uniform'].filter((name) => form[name].checked);
  if (form.arm.value) policies.push({ arm: form.arm.value });
  const { context_dim, arm_dim, challengers } = tenant.configuration;
  for (const [name, own] of Object.entries(challengers))
    if (form[`challenger-${name}`].checked) policies.push({ name, configuration: { ...merged(tenant.configuration, own), context_dim, arm_dim } });
  if (form.preset.value) policies.push({ name: form.preset.value, configuration: { algorithm: form.preset.value, context_dim, arm_dim } });
  return { policies, metric: form.metric?.value || undefined, from: end(form.from.value), to: end(form.to.value) };
}

/** What a challenger amounts to: under an algorithm of its own that preset with its members, else the tenant's with them. */
function merged(base, own) {
  if (own.algorithm) return own;
  const { challengers, guardrail, promotion, experiment, ...rest } = base;
  const isPlain = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);
  const over = (a, b) => Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])].map((k) => [k, !(k in b) ? a[k] : isPlain(a[k]) && isPlain(b[k]) ? over(a[k], b[k]) : b[k]]));
  return over(rest, own);
}

function form(page, tenant) {
  const refused = h('div', {});
  const begin = async (event) => {
    event.preventDefault();
    const go = event.target.querySelector('[type=submit]');
    go.disabled = true;
    try {
      const made = await call('POST', of(page.tenant, 'evaluations'), { body: wish(event.target.elements, tenant), signal: page.signal });
      location.hash = place(['t', page.tenant, 'evaluation', made.id]);
    } catch (fault) {
      if (fault.name === 'AbortError') return;
      if (!(fault instanceof Problem)) throw fault;
      refused.replaceChildren(told(fault));
      go.disabled = false;
    }
  };
  const box = (name, words, checked) => h('label', { class: 'check' }, h('input', { type: 'checkbox', name, checked }), words);
  return h('form', { id: 'evaluate', class: 'card', onsubmit: begin }, h('h2', {}, 'Evaluate'),
    h('fieldset', {}, h('legend', {}, 'Policies; the others are compared with the first'),
      box('logged', 'what the log did', true), box('uniform', 'all candidates alike', true),
      Object.keys(tenant.configuration.challengers).map((name) => box(`challenger-${name}`, ['challenger ', id(name)], false)),
      h('div', { class: 'controls' }, field('Always this arm', { name: 'arm' }), field('A preset, learning along the way', { name: 'preset', chosen: '' }, [['', 'none'], ...PRESETS.map((p) => [p, p])]),
        tenant.configuration.metrics?.length ? field('Judged by', { name: 'metric', chosen: '' }, [['', 'the reward'], ...tenant.configuration.metrics.map((m) => [m.name, m.name])]) : null)),
    h('div', { class: 'controls' }, field('From (UTC, or an event)', { name: 'from', placeholder: 'the beginning' }), field('To', { name: 'to', placeholder: 'now' }), h('button', { type: 'submit' }, 'Evaluate')), refused);
}

/* --- a result ---------------------------------------------------------------------------------------------------------- */

const isTold = (e) => e && known(e.estimate);

/** Estimates of one policy, as rows; those that are refused say why. */
const rowsOf = (p, estimators = ESTIMATORS) => estimators.filter(([name]) => p[name]).map(([name, words]) => ({ policy: p.name, estimator: words, key: name, e: p[name] }));

/** The estimate that tells most of those that are told; null: the log cannot tell. */
const bestOf = (p) => ['dr', 'snips', 'ips', 'clipped_ips', 'replay'].find((name) => isTold(p[name])) ?? null;

function sentence(p) {
  const best = bestOf(p);
  if (best === null) return [id(p.name), ': the log cannot tell.'];
  const e = p[best], gain = p.gain?.[best];
  if (p.policy === 'logged') return ['The log itself has earned ', h('strong', {}, num(e.estimate)), ` ${range(e.lower, e.upper)} a decision.`];
  return [id(p.name), ' would have earned ', h('strong', {}, num(e.estimate)), ` ${range(e.lower, e.upper)} a decision`,
    gain && known(gain.estimate) ? `; difference to the log: ${num(gain.estimate)} ${range(gain.lower, gain.upper)}.` : '.'];
}

/** Rows of estimates or differences as a table with a picture; a dotted line at zero, or at what the log earned. */
function estimates(name, caption, rows, zero) {
  const scale = span(rows.flatMap((r) => [r.e.estimate, r.e.lower, r.e.upper]), zero);
  return table({ id: name, name, caption, rows, columns: [
    { name: 'policy', kind: 'id', value: (r) => r.policy },
    ...(rows.some((r) => r.against) ? [{ name: 'less', kind: 'id', value: (r) => r.against }] : []),
    { name: 'estimate by', value: (r) => r.estimator },
    { name: 'estimate', kind: 'num', value: (r) => r.e.estimate ?? null },
    interval('interval', (r) => r.e.lower ?? null, (r) => r.e.upper ?? null),
    { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (r) => (isTold(r.e) ? whisker(scale, r.e.estimate, r.e.lower, r.e.upper, r.policy === 'the log' ? 'c1' : 'c0', zero) : r.e.refused ?? '–') }] });
}

function shown(result) {
  const policies = result.policies ?? [result];
  const { logged, n, level } = policies[0];
  const log = { policy: 'the log', estimator: 'mean reward', e: logged };
  const wordsOf = (name) => ESTIMATORS.find(([one]) => one === name)[1];
  const bests = policies.filter((p) => p.policy !== 'logged').map((p) => { const best = bestOf(p) ?? ESTIMATORS.find(([name]) => p[name])[0]; return { policy: p.name, estimator: wordsOf(best), e: p[best] }; });
  const differences = (result.differences ?? []).flatMap((d) => [...ESTIMATORS, ...(hasSlots(policies[0]) ? WHOLE : [])].filter(([name]) => d[name]).map(([name, words]) => ({ policy: d.policy, against: d.against, estimator: words, e: d[name] })));
  const histograms = policies.filter((p) => p.weights.histogram && (p.weights.histogram.counts.length > 0 || p.weights.histogram.zero > 0));
  const verdict = (p) => { const gain = p.gain?.[bestOf(p)]; return !gain || !known(gain.lower) ? '' : gain.lower > 0 ? 'better' : gain.upper < 0 ? 'worse' : ''; };
  return h('div', {},
    h('ul', { class: 'sentences', id: 'verdicts' }, policies.map((p) => h('li', { class: verdict(p) }, sentence(p)))),
    [...new Set(policies.flatMap((p) => p.warnings.map((w) => `${p.name}: ${w}`)))].map((w) => h('p', { class: 'problem' }, id(w))),
    estimates('bests', `Mean reward a decision, over ${count(n)} decisions; intervals of ${num(100 * level)} %`, [log, ...bests], logged?.estimate),
    policies.some(hasSlots) ? estimates('whole', `All slots of a decision together: up to ${count(policies[0].most_slots)}; above is the first alone`,
      [{ policy: 'the log', estimator: 'mean of the sums', e: policies[0].logged_total }, ...policies.filter((p) => p.policy !== 'logged').flatMap((p) => rowsOf(p, WHOLE))], policies[0].logged_total?.estimate) : null,
    h('details', {}, h('summary', {}, 'By every estimator'),
      estimates('estimates', 'All estimates', [log, ...policies.flatMap((p) => rowsOf(p))], logged?.estimate),
      differences.length ? estimates('differences', 'Differences, on the same decisions', differences, 0) : null),
    table({ id: 'weights', name: 'weights', caption: 'Can the log tell? Weights are 1 on the average, and the more decisions of equal weight they are worth, the better', rows: policies, columns: [
      { name: 'policy', kind: 'id', value: (p) => p.name },
      { name: 'mean weight', kind: 'num', value: (p) => p.weights.mean },
      { name: 'its standard error', kind: 'num', value: (p) => p.weights.mean_error },
      { name: 'largest', kind: 'num', value: (p) => p.weights.max },
      { name: 'worth decisions', kind: 'num', value: (p) => p.ess },
      { name: 'never shown by the log', kind: 'percent', value: (p) => p.unsupported }] }),
    histograms.length ? weighed(histograms) : null);
}

/** How the weights of each policy lie: far to the right are the few decisions that an estimate hangs on. */
function weighed(policies) {
  const binsOf = ({ zero, edges, counts, mass }) => [...(zero ? [{ low: 0, high: 0, n: zero, mass: 0 }] : []), ...counts.map((n, i) => ({ low: edges[i], high: edges[i + 1], n, mass: mass[i] }))];
  const wordsOf = (b) => (b.high === 0 ? 'weight 0' : `weights ${num(b.low)} to ${num(b.high)}`);
  const rows = policies.flatMap((p) => binsOf(p.weights.histogram).map((b) => ({ policy: p.name, ...b })));
  return figure('Weights of the decisions, by policy', h('div', { class: 'panels', id: 'histograms' }, policies.map((p, i) => {
    const bins = binsOf(p.weights.histogram);
    return h('div', { class: 'panel' }, h('p', { class: 'panel-name' }, id(p.name)),
      histogram(`Weights, number ${i + 1} of ${policies.length}`, bins, (b) => `${wordsOf(b)}: ${count(b.n)} decisions, ${num(b.mass)} in all`));
  })), table({ id: 'histogram', name: 'histogram', caption: 'Decisions by their weight; the least and the largest range hold what lies beyond', rows, columns: [
    { name: 'policy', kind: 'id', value: (r) => r.policy },
    { name: 'from', kind: 'num', value: (r) => r.low },
    { name: 'to', kind: 'num', value: (r) => r.high },
    { name: 'decisions', kind: 'count', value: (r) => r.n },
    { name: 'sum of weights', kind: 'num', value: (r) => r.mass }] }));
}

function one(page, job, isOwner, again) {
  const said = h('div', {});
  const isRunning = job.state === 'running';
  const drop = () => call('DELETE', of(page.tenant, 'evaluations', job.id));
  const cancel = async () => {
    try {
      await drop();
      again();
    } catch (fault) {
      said.replaceChildren(page.refuse(fault));
    }
  };
  const forget = async () => {
    const made = await change({ tenant: page.tenant, title: 'Forget', words: ['The evaluation ', id(job.id), ' and its result are deleted.'], doIt: drop, done: 'The evaluation is forgotten.' });
    if (made !== null) location.hash = place(['t', page.tenant, 'evaluation']);
  };
  return h('section', { id: 'job', 'data-state': job.state }, h('h2', {}, 'Evaluation ', id(job.id)),
    h('p', { class: 'fine' }, 'Of ', namesOf(job.request.policies), `, begun ${time(job.begun_at)}`, job.ended_at ? `, ended ${time(job.ended_at)}` : '', job.request.metric ? [', by the metric ', id(job.request.metric)] : '', '. ',
      isOwner ? button(isRunning ? 'Cancel' : 'Forget', isRunning ? cancel : forget, { class: 'small', id: 'drop' }) : ''), said,
    isRunning ? [h('progress', { max: 1, value: job.progress ?? 0, 'aria-label': 'Progress' }), ` ${percent(job.progress ?? 0)}`] : null,
    job.problem ? h('div', { class: 'problem' }, h('h2', {}, job.problem.title), h('p', {}, job.problem.detail)) : null,
    job.result ? shown(job.result) : isRunning || job.problem ? null : h('p', {}, `It was ${job.state}: there is no result.`));
}

/* --- the screen ---------------------------------------------------------------------------------------------------------- */

const listed = (page, list) => table({ id: 'kept', name: 'evaluations', caption: 'Evaluations that are kept', rows: list, none: 'There are none yet.', columns: [
  { name: 'evaluation', kind: 'id', value: (e) => e.id, cell: (e) => to(['t', page.tenant, 'evaluation', e.id], id(e.id)) },
  { name: 'state', value: (e) => e.state },
  { name: 'policies', value: (e) => e.request.policies.map(nameOf).join(' '), cell: (e) => namesOf(e.request.policies) },
  { name: 'begun (UTC)', kind: 'time', value: (e) => e.begun_at },
  { name: 'by key', value: (e) => e.by, cell: (e) => h('code', {}, e.by ?? '–') }] });

export async function evaluation(page) {
  const { signal, tenant } = page;
  const title = h('h1', {}, 'Evaluation of policies on the log of ', id(tenant));
  if ((await kept(page)) === null)
    return h('div', {}, title, h('p', { id: 'none' }, 'This server has no evaluations. On the command line:'),
      h('pre', { tabindex: 0, 'aria-label': 'Commands' }, h('code', {}, `laplacectl events --tenant ${tenant} > log.ndjson\nlaplacectl evaluate --format ndjson --policy logged --policy uniform --html report.html log.ndjson`)));
  const [view, isManager] = await Promise.all([get(of(tenant), { signal }), mayManage(tenant, { signal })]);
  const isOwner = isManager && !isShared();
  const wanted = page.rest[0];
  const chosen = wanted ? page.renewed((live, again) => live(async () => get(of(tenant, 'evaluations', wanted), { signal }), (job) => one(page, job, isOwner, again), (job) => (job.state === 'running' ? 1 : 0))) : null;
  return h('div', {}, title, chosen, notHere('An evaluation'),
    isOwner ? h('details', { open: !wanted }, h('summary', {}, 'A new evaluation'), form(page, view)) : isManager ? null : h('p', { class: 'fine' }, 'A key that may manage can begin evaluations here.'),
    page.live(async () => ({ list: await kept(page) }), ({ list }) => listed(page, list), 5));
}
