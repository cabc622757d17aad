/* The neighbourhood of a user on the graph: what does the graph do? Colour is the mean that the model expects of an
 * arm, the ring how little it knows. */
import { h, id, to, field, place, say } from './dom.js';
import { get, call, lines as linesOf, of } from './api.js';
import { newestContext } from './log.js';
import { table, interval } from './table.js';
import { bar } from './plot.js';
import { layout } from './force.js';
import { num, count, range, known } from './format.js';
import { told } from './told.js';
import { ask as askTaught, taught, untold } from './taught.js';

const LIMIT = 300, CELLS = 1000;
const PAUSE_MS = 150; /* who goes from user to user asks for the last of them alone */
/* From low to high; each differs from its neighbours in lightness, so that it can be read without colour. */
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

/** The colour of a share of the way from low to high. */
export function ramp(share) {
  const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1), i = Math.min(RAMP.length - 2, Math.floor(at));
  return `rgb(${RAMP[i].map((v, k) => Math.round(v + (at - i) * (RAMP[i + 1][k] - v))).join(',')})`;
}

/* --- what is asked for ------------------------------------------------------------------------------------------ */

/** Of those who were decided for last, the one with most friends; null: there are none. */
async function someUser(page) {
  const last = await linesOf(`${of(page.tenant, 'events')}?type=decided,observed&limit=40`, { signal: page.signal });
  const users = [...new Set(last.map((line) => line.user))].slice(0, 8);
  const circles = await Promise.all(users.map((u) => get(`${of(page.tenant, 'graph', 'near')}?user=${encodeURIComponent(u)}&hops=1&limit=${LIMIT}`, { signal: page.signal })));
  return circles.sort((a, b) => b.users.length - a.users.length)[0]?.user ?? null;
}

/** Mean and deviation of arms for all users of the picture, asked for once for each arm. */
function posterior(page, users, context) {
  const known_ = new Map();
  const perCall = Math.max(1, Math.floor(CELLS / users.length));
  return async function ask(arms, i, signal) {
    if (!known_.has(arms[i])) {
      const wanted = arms.slice(i, i + perCall).filter((a) => !known_.has(a));
      const body = { users, arms: wanted, ...(context ? { context } : {}) };
      const answer = await call('POST', of(page.tenant, 'posterior'), { body, signal });
      wanted.forEach((arm, k) => known_.set(arm, { mean: answer.mean.map((r) => r[k]), sd: answer.sd.map((r) => r[k]), lower: answer.lower.map((r) => r[k]), upper: answer.upper.map((r) => r[k]) }));
    }
    return { values: known_.get(arms[i]), all: known_ };
  };
}

/* --- the picture ------------------------------------------------------------------------------------------------ */

/** A canvas of users and edges; show({values, mean, sd}) colours it, and a pointer over a user is told of. Frames are drawn until the layout has come to rest. */
function picture(near, onChosen, onPointed, signal) {
  const canvas = h('canvas', { class: 'graph', role: 'img', tabindex: 0, 'aria-label': `${near.users.length} users and the edges between them; the table below has the same numbers. Arrow keys choose a user.` });
  const { x, y, step } = layout(near.users, near.edges);
  let shown = null, chosen = 0, isMoving = true;
  const stats = { times: [] }; /* of scripts, by frame */
  canvas.stats = stats;

  /* All of it fits, whatever the layout has come to. */
  const scaleOf = () => {
    const w = canvas.clientWidth, high = canvas.clientHeight, r = Math.min(1, 0.4 + w / 1000) * (near.users.length > 150 ? 5 : near.users.length > 60 ? 7 : 10);
    const [x0, x1, y0, y1] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)], edge = 2.4 * r + 6;
    const unit = Math.min((w - 2 * edge) / (x1 - x0 || 1), (high - 2 * edge) / (y1 - y0 || 1), 90);
    const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
    return { at: (i) => [w / 2 + (x[i] - mx) * unit, high / 2 + (y[i] - my) * unit], r };
  };
  function paint() {
    const { clientWidth: w, clientHeight: hgt } = canvas, dpr = window.devicePixelRatio || 1;
    if (w === 0) return;
    if (canvas.width !== Math.round(w * dpr)) { canvas.width = Math.round(w * dpr); canvas.height = Math.round(hgt * dpr); }
    const ink = canvas.getContext('2d'), style = getComputedStyle(canvas), { at, r } = scaleOf();
    ink.setTransform(dpr, 0, 0, dpr, 0, 0);
    ink.clearRect(0, 0, w, hgt);
    ink.strokeStyle = style.getPropertyValue('--edge');
    for (const e of near.edges) {
      ink.globalAlpha = e.from === chosen || e.to === chosen ? 0.9 : 0.28;
      ink.lineWidth = Math.min(3, 0.6 + 0.4 * Math.sqrt(e.weight));
      ink.beginPath(); ink.moveTo(...at(e.from)); ink.lineTo(...at(e.to)); ink.stroke();
    }
    ink.globalAlpha = 1;
    for (let i = near.users.length - 1; i >= 0; i--) {
      const [px, py] = at(i), own = i === 0 ? r + 3 : r;
      if (shown) {
        const width = 1 + (r + 1) * Math.max(0, Math.min(1, (shown.values.sd[i] - shown.sd.low) / (shown.sd.high - shown.sd.low || 1)));
        ink.strokeStyle = style.getPropertyValue('--ring');
        ink.lineWidth = width;
        ink.beginPath(); ink.arc(px, py, own + width / 2, 0, 7); ink.stroke();
        ink.fillStyle = ramp((shown.values.mean[i] - shown.mean.low) / (shown.mean.high - shown.mean.low || 1));
      } else ink.fillStyle = style.getPropertyValue('--edge');
      ink.beginPath(); ink.arc(px, py, own, 0, 7); ink.fill();
      if (i === chosen || i === 0) {
        ink.strokeStyle = style.getPropertyValue('--ink');
        ink.lineWidth = i === chosen ? 2.5 : 1.5;
        ink.beginPath(); ink.arc(px, py, own + 1, 0, 7); ink.stroke();
      }
    }
  }
  function turn() {
    if (signal.aborted || !isMoving) return;
    const begun = performance.now();
    isMoving = step();
    if (window.matchMedia('(prefers-reduced-motion: reduce)').matches) while (isMoving && performance.now() - begun < 12) isMoving = step();
    paint();
    stats.times.push(performance.now() - begun);
    if (isMoving) requestAnimationFrame(turn);
    else canvas.dataset.rest = 'true';
  }
  const choose = (i) => { chosen = i; paint(); onChosen(i); };
  /* The user at the pointer; -1: there is none. */
  const under = (event) => {
    const { at, r } = scaleOf(), box = canvas.getBoundingClientRect();
    let best = -1, least = (r + 8) ** 2;
    near.users.forEach((_, i) => {
      const [px, py] = at(i), d = (px - event.clientX + box.left) ** 2 + (py - event.clientY + box.top) ** 2;
      if (d < least) [least, best] = [d, i];
    });
    return best;
  };
  canvas.addEventListener('click', (event) => { if (under(event) >= 0) choose(under(event)); });
  canvas.addEventListener('pointermove', (event) => onPointed(under(event)));
  canvas.addEventListener('pointerleave', () => onPointed(-1));
  canvas.addEventListener('keydown', (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    choose((chosen + by + near.users.length) % near.users.length);
  });
  new ResizeObserver(() => paint()).observe(canvas);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint, { signal });
  requestAnimationFrame(turn);
  return { canvas, show: (what) => { shown = what; paint(); }, chosen: () => chosen };
}

function legendOf(scale) {
  const strip = h('canvas', { class: 'ramp', width: 120, height: 10, 'aria-hidden': 'true' });
  const ink = strip.getContext('2d');
  for (let i = 0; i < 120; i++) { ink.fillStyle = ramp(i / 119); ink.fillRect(i, 0, 1, 10); }
  return h('p', { class: 'fine', id: 'ramp' }, `Expected reward ${num(scale.mean.low)} `, strip, ` ${num(scale.mean.high)}. A thick ring: the model knows little (sd ${num(scale.sd.low)} thin, ${num(scale.sd.high)} thick).`);
}

/* --- what goes from one to another -------------------------------------------------------------------------------- */

/** The users of a shortest way from the first user to another, both with it; null: no edge of the picture leads there. */
export function wayTo(near, end) {
  const from = new Map([[0, null]]);
  for (const at of from.keys()) { /* a Map's keys come in the order in which they were put */
    if (at === end) break;
    for (const e of near.edges) {
      const next = e.from === at ? e.to : e.to === at ? e.from : null;
      if (next !== null && !from.has(next)) from.set(next, at);
    }
  }
  if (!from.has(end)) return null;
  const way = [];
  for (let at = end; at !== null; at = from.get(at)) way.unshift(near.users[at]);
  return way;
}

/** How what is known of the first user fades on the way to the chosen one. */
function fading(near, i) {
  const way = wayTo(near, i);
  if (way === null || way.length < 2) return '';
  const most = Math.max(...way.map((u) => u.kernel ?? 0));
  return table({ id: 'way', name: 'way', caption: 'The kernel on a shortest way: how much a reward of each counts for the first', rows: way, columns: [
    { name: 'user', kind: 'id', value: (u) => u.id },
    { name: 'kernel', kind: 'num', value: (u) => u.kernel, cell: (u) => h('span', { class: 'with-bar' }, bar(most > 0 && known(u.kernel) ? u.kernel / most : 0, 'c0', 60), num(u.kernel)) }] });
}

const edgesOf = (near) => table({ id: 'edges', name: 'edges', caption: 'Edges between them', rows: near.edges, none: 'There are none.', columns: [
  { name: 'user', kind: 'id', value: (e) => near.users[e.from].id },
  { name: 'and', kind: 'id', value: (e) => near.users[e.to].id },
  { name: 'weight', kind: 'num', value: (e) => e.weight }] });

/* --- the screen -------------------------------------------------------------------------------------------------- */

const ends = (values) => ({ low: Math.min(...values), high: Math.max(...values) });

function body(page, near, arms, context) {
  const ask = posterior(page, near.users.map((u) => u.id), context);
  const facts = h('div', { class: 'card', id: 'chosen' }), numbers = h('div', {}), name = h('output', { id: 'arm' }), key = h('div', {});
  const from = h('section', { id: 'teachers' });
  let now = null, arm = 0, asking = new AbortController(), soon = 0, learning = new AbortController();
  /* Who taught the model what it expects of this arm for this user. */
  const trace = (u) => {
    clearTimeout(soon);
    learning.abort();
    learning = new AbortController();
    const signal = AbortSignal.any([learning.signal, page.signal]);
    soon = setTimeout(async () => {
      try {
        const found = await askTaught(page.tenant, u.id, arms[arm], context, signal);
        from.replaceChildren(h('h2', {}, 'What is known of ', id(u.id), ' and ', id(found.arm)), taught(page.tenant, u.id, found, context));
      } catch (fault) {
        if (fault.name !== 'AbortError') from.replaceChildren(untold(page, fault));
      }
    }, PAUSE_MS);
  };
  const tell = (i) => {
    const u = near.users[i];
    if (now) trace(u);
    facts.replaceChildren(h('h2', {}, id(u.id)),
      h('p', {}, i === 0 ? 'Around this user. ' : `${u.hops} ${u.hops === 1 ? 'edge' : 'edges'} away. `, `Degree ${num(u.degree)}, kernel ${num(u.kernel)}.`),
      now ? h('p', {}, 'Expected of ', id(arms[arm]), ': ', h('strong', {}, num(now.mean[i])), ` ${range(now.lower[i], now.upper[i])}, sd ${num(now.sd[i])}.`) : '',
      h('p', {}, to(['t', page.tenant, 'neighbours', u.id], 'Show around this one'), ' · ', to(['t', page.tenant, 'decision', 'now', u.id, ...(context ? [JSON.stringify(context)] : [])], 'What would be decided?')), fading(near, i));
  };
  const pointed = h('output', { class: 'reading', id: 'pointed' }, ' ');
  const point = (i) => pointed.replaceChildren(...(i < 0 ? [' '] : [id(near.users[i].id), now ? `: ${num(now.mean[i])} ${range(now.lower[i], now.upper[i])}, sd ${num(now.sd[i])}` : '']));
  const seen = picture(near, tell, point, page.signal);
  const rows = () => near.users.map((u, i) => ({ ...u, mean: now?.mean[i] ?? null, sd: now?.sd[i] ?? null, lower: now?.lower[i] ?? null, upper: now?.upper[i] ?? null }));
  const list = () => numbers.replaceChildren(table({ id: 'near', name: 'neighbours', caption: 'Users of the picture, the nearest first', rows: rows(), columns: [
    { name: 'user', kind: 'id', value: (u) => u.id, cell: (u) => to(['t', page.tenant, 'neighbours', u.id], id(u.id)) },
    { name: 'edges away', kind: 'count', value: (u) => u.hops },
    { name: 'degree', kind: 'num', value: (u) => u.degree },
    { name: 'kernel', kind: 'num', value: (u) => u.kernel },
    { name: 'mean', kind: 'num', value: (u) => u.mean },
    { name: 'sd', kind: 'num', value: (u) => u.sd },
    interval('bounds', (u) => u.lower, (u) => u.upper)] }));
  const turn = async (i) => {
    arm = i;
    name.replaceChildren(id(arms[i]), ` (${i + 1} of ${arms.length})`);
    asking.abort();
    asking = new AbortController();
    try {
      const { values, all } = await ask(arms, i, AbortSignal.any([asking.signal, page.signal]));
      now = values;
      const those = common.checked ? [...all.values()] : [values];
      const scale = { mean: ends(those.flatMap((v) => v.mean)), sd: ends([...all.values()].flatMap((v) => v.sd)) };
      seen.show({ values, ...scale });
      key.replaceChildren(legendOf(scale));
      tell(seen.chosen());
      list();
      say(`Arm ${i + 1} of ${arms.length}`);
    } catch (fault) {
      if (fault.name !== 'AbortError') key.replaceChildren(page.refuse(fault));
    }
  };
  const common = h('input', { type: 'checkbox', name: 'common', onchange: () => turn(arm) });
  /* The picture begins with the arm that divides these users most, of those asked first. */
  const begin = async () => {
    await turn(0);
    if (!now) return;
    const { all } = await ask(arms, 0, page.signal);
    const width = (a) => (all.has(a) ? Math.max(...all.get(a).mean) - Math.min(...all.get(a).mean) : -1);
    const widest = arms.reduce((best, a, i) => (width(a) > width(arms[best]) ? i : best), 0);
    slider.value = widest;
    if (widest !== 0) await turn(widest);
  };
  const slider = h('input', { type: 'range', id: 'arms', min: 0, max: arms.length - 1, value: 0, oninput: (e) => turn(Number(e.target.value)) });
  tell(0);
  list();
  if (arms.length) begin();
  return h('div', {},
    arms.length ? h('div', { class: 'controls' }, h('label', { class: 'field grow' }, h('span', {}, 'Arm'), slider), name, h('label', { class: 'check' }, common, 'one scale for all arms seen'))
      : h('p', { class: 'none' }, 'The catalogue has no arms: there is nothing to expect anything of.'),
    key,
    h('div', { class: 'beside' }, h('div', {}, seen.canvas, pointed,
      h('p', { class: 'fine' }, `${count(near.users.length)} users, ${count(near.edges.length)} edges within ${near.hops} edges of `, id(near.user), near.truncated ? ', the nearest of more' : '', '.')), facts), from,
    h('details', {}, h('summary', {}, 'The numbers'), numbers, edgesOf(near)));
}

async function arms(page) {
  const { arms: own } = await get(of(page.tenant, 'arms'), { signal: page.signal });
  const active = own.filter((a) => a.active).map((a) => a.id);
  const shown = (await get(of(page.tenant, 'stats'), { signal: page.signal })).arms.sort((a, b) => b.decisions - a.decisions).map((a) => a.arm);
  if (active.length === 0) return shown;
  return [...shown.filter((a) => active.includes(a)), ...active.filter((a) => !shown.includes(a))];
}

export async function neighbours(page) {
  const user = page.rest[0] ?? (await someUser(page));
  const dim = (await get(of(page.tenant), { signal: page.signal })).configuration.context_dim;
  const own = dim > 0 && user !== null && !page.rest[2] ? await newestContext(page.tenant, user, page.signal) : null;
  const found = own ? own.join(', ') : '', text = page.rest[2] ? page.rest[2].slice(1, -1) : found;
  const hops = ['1', '2', '3', '4'].includes(page.rest[1]) ? page.rest[1] : '2';
  const go = (event) => {
    event.preventDefault();
    const form = event.currentTarget.elements;
    /* A context that nobody has written is found anew, for another user is another one. */
    const written = form.context?.value && form.context.value !== found ? [`[${form.context.value}]`] : [];
    if (form.user.value) location.hash = place(['t', page.tenant, 'neighbours', form.user.value, form.hops.value, ...written]);
  };
  const form = h('form', { class: 'controls', onsubmit: go, id: 'around' }, field('User', { name: 'user', value: user ?? '' }),
    field('Edges', { name: 'hops', chosen: hops }, [['1', 'up to 1'], ['2', 'up to 2'], ['3', 'up to 3'], ['4', 'up to 4']]),
    dim > 0 ? field('Context, of all of them', { name: 'context', placeholder: '0.1, 0.7', value: text }) : null, h('button', { type: 'submit' }, 'Show'));
  const title = h('h1', {}, 'Neighbours in ', id(page.tenant));
  if (user === null) return h('div', {}, title, form, h('p', { class: 'none' }, 'No decisions yet: name a user.'));
  if (dim > 0 && text === '')
    return h('div', {}, title, form, h('p', { class: 'none', id: 'no-context' }, `What this model expects depends on a context of ${count(dim)} ${dim === 1 ? 'number' : 'numbers'}, and the newest lines of the log have none of `, id(user), ': write one.'));
  let shown;
  try {
    const near = await get(`${of(page.tenant, 'graph', 'near')}?user=${encodeURIComponent(user)}&hops=${hops}&limit=${LIMIT}`, { signal: page.signal });
    shown = body(page, near, await arms(page), dim > 0 ? JSON.parse(`[${text}]`) : null);
  } catch (fault) {
    if (fault.name === 'AbortError' || fault.status === 401) throw fault;
    shown = fault instanceof SyntaxError ? h('p', { class: 'problem' }, 'The context is no list of numbers.') : told(fault);
  }
  return h('div', {}, title, form, shown);
}
