/* The model: what it has found out about its own scales, and does its dictionary hold what there is? */
import { h, id, button, say } from './dom.js';
import { get, call, of, mayManage } from './api.js';
import { table, figure } from './table.js';
import { bar, lines, colour, legend } from './plot.js';
import { num, count, percent, known, bytes } from './format.js';
import { told } from './told.js';

const SHARES = [['arm', 'the arm alone'], ['feature', 'features of the arm'], ['user', 'users and their friends'], ['context', 'the context'], ['linear', 'the context, linearly']];

async function load(page) {
  const { signal } = page;
  const [model, tenant, graph] = await Promise.all([get(`${of(page.tenant, 'model')}?history=1`, { signal }), get(of(page.tenant), { signal }), get(of(page.tenant, 'graph'), { signal })]);
  return { model: { ...model, dictionary: model.dictionary.length }, tenant, graph };
}

function scales({ scales: s }) {
  if (!s) return h('p', {}, 'This algorithm has no scales to find out: they stand in its configuration.');
  const shares = SHARES.filter(([name]) => s.shares[name] > 0);
  const history = s.history.filter((t) => t.rewards > 0);
  const names = SHARES.filter(([name]) => history.some((t) => t[name] > 0) && s.shares[name] > 0);
  const points = (name) => history.map((t) => ({ x: Math.log10(t.rewards), y: Math.sqrt(t[name]) }));
  const curves = [...names, ['noise', 'noise of one reward']].map(([name, words]) => ({ name, words, colour: colour(SHARES.findIndex(([n]) => n === name)) }));
  const along = [10, 100, 1000, 10000, 100000, 1000000].map((n) => ({ at: Math.log10(n), text: count(n) })).filter(({ at }) => history.length && at >= Math.log10(history[0].rewards) && at <= Math.log10(history.at(-1).rewards));
  return h('section', {},
    h('p', { class: 'lead', id: 'words' }, s.words, '.'),
    table({ id: 'shares', name: 'shares', caption: 'Share of each part in what is expected before any reward of an arm has come', rows: shares, columns: [
      { name: 'part', value: ([, words]) => words },
      { name: 'share', kind: 'percent', value: ([name]) => s.shares[name], cell: ([name]) => h('span', { class: 'with-bar' }, bar(s.shares[name], colour(SHARES.findIndex(([n]) => n === name)), 180), percent(s.shares[name])) },
      { name: 'standard deviation', kind: 'num', value: ([name]) => Math.sqrt(s.in_force[name]) }] }),
    h('p', { class: 'fine' }, `Noise of one reward: standard deviation ${num(Math.sqrt(s.in_force.noise))}. Mean before anything is known: ${num(s.in_force.mean)}. `,
      s.next === null ? 'The scales are not learned any more.' : `They are learned anew at ${count(s.next)} rewards.`),
    history.length < 2 ? null : figure('Standard deviations, as they were found at so many rewards',
      h('div', {}, legend(curves.map((c) => ({ name: c.words, colour: c.colour }))),
        lines('Scales by rewards', { series: curves.map((c) => ({ colour: c.colour, points: points(c.name) })), x0: Math.log10(history[0].rewards), x1: Math.log10(history.at(-1).rewards), zero: true, along },
          { xs: history.map((t) => Math.log10(t.rewards)), read: (i) => `${count(history[i].rewards)} rewards: ${curves.map((c) => `${c.words} ${num(Math.sqrt(history[i][c.name]))}`).join(', ')}` }, 180)),
      table({ id: 'history', name: 'scales', caption: 'Refits (variances)', rows: history, columns: [
        { name: 'rewards', kind: 'count', value: (t) => t.rewards },
        ...['mean', 'noise', 'arm', 'feature', 'user', 'context', 'linear', 'lengthscale', 'rho'].map((name) => ({ name, kind: 'num', value: (t) => t[name] }))] })));
}

function size({ model, tenant }) {
  const { representation: r } = model.parameters;
  const hasCap = r.type !== 'exact' && r.type !== 'by_arm';
  const cap = hasCap ? r.max_dictionary : null;
  const rows = [
    { what: 'rewards learned', n: model.events },
    { what: 'points that the model holds', n: model.dictionary },
    { what: 'effective dimension: how many of them say something of their own', n: model.effective_dimension },
    ...(hasCap ? [{ what: 'points that it may hold', n: cap }] : []),
  ];
  const most = Math.max(...rows.map((x) => x.n), 1);
  const words = model.events === 0 ? 'It has learned nothing yet.'
    : !hasCap ? `Nothing is left out: the model is exact over ${count(model.dictionary)} points.`
    : model.dictionary >= cap ? 'The dictionary is full: raise representation.max_dictionary, or what comes new is left out.'
    : model.effective_dimension > 0.9 * model.dictionary ? 'Nearly every point says something of its own: the dictionary is still growing with what there is.'
    : 'The dictionary holds more points than there are independent things to know: it is large enough.';
  return h('section', {}, h('h2', {}, 'Does it hold what there is?'), h('p', { id: 'holds' }, words),
    table({ id: 'size', name: 'size', caption: 'The size of the model', rows, columns: [
      { name: 'what', value: (x) => x.what },
      { name: 'number', kind: 'num', value: (x) => x.n, cell: (x) => h('span', { class: 'with-bar' }, bar(x.n / most, 'c0', 180), Number.isInteger(x.n) ? count(x.n) : num(x.n)) }] }),
    growth(model), spectrum(model),
    tenant.rebuilding ? h('p', { class: 'problem' }, `A new model is being built${tenant.rebuild ? ` (${percent(tenant.rebuild.progress)})` : ''}; until then the old one serves.`) : null,
    model.clamped ? h('p', { class: 'problem' }, `${count(model.clamped)} numbers were lifted to their floor: a loss of accuracy.`) : null);
}

const LINES = [['points', 'points that the model holds'], ['effective_dimension', 'effective dimension'], ['cap', 'points that it may hold']];

/** How its size went: by the rewards that it had learned. */
function growth({ history }) {
  if (history.length < 2) return null;
  const shown = LINES.filter(([name]) => history.some((p) => known(p[name])));
  const isFading = history.some((p) => p.first_weight < 1);
  return figure('How it grew', h('div', {}, legend(shown.map(([, words], i) => ({ name: words, colour: colour(i) }))),
    lines('Size by rewards learned', { series: shown.map(([name], i) => ({ colour: colour(i), dashed: name === 'cap', points: history.map((p) => ({ x: p.events, y: p[name] })) })), x0: history[0].events, x1: history.at(-1).events, zero: true, isTime: false },
      { xs: history.map((p) => p.events), read: (i) => `${count(history[i].events)} rewards: ${shown.map(([name, words]) => `${words} ${num(history[i][name])}`).join(', ')}${isFading ? `, the first reward weighs ${percent(history[i].first_weight)}` : ''}` }, 180)),
  table({ id: 'growth', name: 'growth', caption: 'The model behind so many rewards', rows: history, columns: [
    { name: 'rewards', kind: 'count', value: (p) => p.events },
    { name: 'at (UTC)', kind: 'time', value: (p) => p.at },
    { name: 'version', kind: 'count', value: (p) => p.version },
    { name: 'points', kind: 'count', value: (p) => p.points },
    { name: 'may hold', kind: 'count', value: (p) => p.cap },
    { name: 'effective dimension', kind: 'num', value: (p) => p.effective_dimension },
    { name: 'information gain', kind: 'num', value: (p) => p.information_gain },
    { name: 'weight of the first reward', kind: 'percent', value: (p) => p.first_weight }] }));
}

/** The largest eigenvalues, where a rule reads them: in how many directions it has seen much. */
function spectrum({ spectrum: s }) {
  if (!s) return null;
  const rows = s.eigenvalues.map((x, i) => ({ n: i + 1, x }));
  return h('details', {}, h('summary', {}, 'Largest eigenvalues'),
    table({ id: 'spectrum', name: 'spectrum', caption: `Of what the model has seen, behind ${count(s.observations)} rewards`, rows, columns: [
      { name: 'place', kind: 'count', value: (r) => r.n },
      { name: 'eigenvalue', kind: 'num', value: (r) => r.x, cell: (r) => h('span', { class: 'with-bar' }, bar(r.x / (rows[0].x || 1), 'c0', 180), num(r.x)) }] }));
}

const LOOKS_MS = 500;

/** Shows how far the server's fold is until `over`; what goes wrong with it, the answer of the fold says. */
async function follow(tenant, over, show) {
  while (!over.aborted) {
    const live = await get(of(tenant, 'verify'), { signal: over }).catch(() => null);
    if (live?.running && !over.aborted) show(live);
    await new Promise((done) => setTimeout(done, LOOKS_MS));
  }
}

/** A fold under way: its bar, words, and a button that ends it on the server. */
function folding(tenant, over) {
  const share = h('progress', { max: 1, value: 0, 'aria-label': 'Share of the log that is folded' });
  const words = h('span', { id: 'folded' }, 'The log is folded anew …');
  const refused = h('div', {});
  const stop = button('Cancel', async () => {
    stop.disabled = true;
    try {
      await call('DELETE', of(tenant, 'verify'));
    } catch (fault) {
      if (!over.aborted && fault.type !== '/problems/no-verification') refused.replaceChildren(told(fault));
      stop.disabled = false; // it may not have begun yet
    }
  }, { id: 'stop' });
  follow(tenant, over, ({ events, progress }) => {
    share.value = progress;
    words.textContent = `${count(events)} lines of the log are folded, ${percent(progress)} of it.`;
  });
  return h('div', {}, h('div', { class: 'controls' }, share, words, stop), refused);
}

/** Drawn once a page: the answer stays when the model moves on. */
function proof(page, isOwner) {
  const said = h('div', { id: 'verified' });
  const verify = async ({ target }) => {
    const ending = new AbortController();
    target.disabled = true;
    said.replaceChildren(folding(page.tenant, AbortSignal.any([page.signal, ending.signal])));
    try {
      const got = await call('POST', of(page.tenant, 'verify'), { signal: page.signal });
      const same = got.equal;
      said.replaceChildren(h('p', { class: same ? 'good' : 'problem' }, same ? 'The model equals a fresh fold of its log.' : 'The model differs from a fresh fold of its log.'),
        h('pre', { tabindex: 0, 'aria-label': 'The answer' }, JSON.stringify(got, null, 1)));
      say('The log is folded.');
    } catch (fault) {
      if (page.signal.aborted) return;
      said.replaceChildren(fault.status === 409 ? h('p', {}, 'Cancelled: nothing was found out, and nothing has changed.') : told(fault));
    } finally {
      ending.abort();
    }
    target.disabled = false;
  };
  return h('section', {}, h('h2', {}, 'Is it what its log says?'),
    h('p', {}, isOwner ? button('Fold the log anew and compare', verify, { id: 'verify' }) : 'A key that may manage can have the log folded anew and compared.'), said);
}

function draw(data) {
  const { model, graph, tenant } = data;
  return h('div', {}, scales(model), size(data),
    h('section', {}, h('h2', {}, 'What it rests on'),
      h('p', { id: 'rests' }, `Algorithm ${model.algorithm}, version ${model.version} of the configuration. The graph has ${count(graph.users)} users, ${count(graph.edges)} edges and ${count(graph.components)} ${graph.components === 1 ? 'component' : 'components'}; the log has ${bytes(tenant.log.bytes)} on the disk.`),
      h('p', {}, 'Digest ', h('code', { id: 'digest' }, model.digest), `, at event ${count(model.seq)} of the log.`),
      h('details', {}, h('summary', {}, 'Parameters in force'), h('pre', { tabindex: 0, 'aria-label': 'Parameters in force' }, JSON.stringify(model.parameters, null, 1)))));
}

export const model = (page) => h('div', {}, h('h1', {}, 'The model of ', id(page.tenant)), page.live(() => load(page), draw, 20),
  page.live(async () => ({ isOwner: await mayManage(page.tenant, { signal: page.signal }) }), ({ isOwner }) => proof(page, isOwner), 0));
