/* Who changed what, and when; keys; limits. */
import { h, id, button, field, say } from './dom.js';
import { get, call, lines as linesOf, of, mayManage, unless, isShared } from './api.js';
import { table } from './table.js';
import { bar } from './plot.js';
import { count, num, time } from './format.js';
import { change, notHere } from './change.js';
import { told } from './told.js';

const TYPES = 'configured,graph,arms,forgotten,redacted';
const PAGE = 25;

/* --- lines of the log ---------------------------------------------------------------------------------------------- */

/** What differs between two configurations, by path. */
export function differences(before, after, path = '') {
  const isPlain = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);
  if (isPlain(before) && isPlain(after))
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) => differences(before[name], after[name], `${path}/${name}`));
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

const names = (list, most = 5) => [list.slice(0, most).map((one, i) => [i ? ', ' : '', id(one)]), list.length > most ? ` and ${count(list.length - most)} more` : ''];
const value = (v) => (v === undefined ? 'nothing' : JSON.stringify(v));

function whatChanged(line, older) {
  if (line.type === 'configured') {
    if (line.version === 1) return [`made, with algorithm ${line.configuration.algorithm}`];
    if (!older) return [`version ${line.version}`];
    const list = differences(older.configuration, line.configuration);
    if (list.length === 0) return [`version ${line.version}: the same again`];
    const shown = (d) => h('li', {}, h('code', {}, d.path), ': ', h('del', {}, id(value(d.before))), ' → ', h('ins', {}, id(value(d.after))));
    const { reason, challenger } = line.configuration.promotion ?? {};
    const isPromotion = list.some((d) => d.path.startsWith('/promotion'));
    return [`version ${line.version}`, isPromotion && challenger ? [' (', reason, ' of ', id(challenger), ')'] : '', ': ',
      h('ul', { class: 'diff' }, list.slice(0, 6).map(shown)),
      list.length > 6 ? h('details', {}, h('summary', {}, `${list.length - 6} more`), h('ul', { class: 'diff' }, list.slice(6).map(shown))) : ''];
  }
  if (line.type === 'graph') return [line.replace ? 'the graph, anew: ' : 'the graph: ', `${count(line.add.length)} edges put`, line.remove.length ? `, ${count(line.remove.length)} removed` : ''];
  if (line.type === 'arms') {
    const parts = [[line.put.map((a) => a.id), 'put '], [line.remove, 'removed '], [line.stop ?? [], 'stopped '], [line.start ?? [], 'started ']].filter(([list]) => list.length);
    return [line.replace ? 'the catalogue, anew: ' : 'the catalogue: ', parts.map(([list, word], i) => [i ? '; ' : '', word, names(list)])];
  }
  if (line.type === 'forgotten') return ['the model forgot all that it had learned, and learning began anew'];
  return ['a user was erased: a line stood here'];
}

async function trail(page, before) {
  return linesOf(`${of(page.tenant, 'events')}?type=${TYPES}&limit=${PAGE + 1}${before ? `&before=${before}` : ''}`, { signal: page.signal });
}

function trailTable(page, all) {
  const rows = all.map((line, i) => ({ line, older: all.slice(i + 1).find((one) => one.type === 'configured') }));
  return table({ id: 'trail', name: 'audit', caption: 'Changes of configuration, graph and catalogue, promotions and erasures; the newest first', rows, columns: [
    { name: 'event', kind: 'count', value: (r) => r.line.seq },
    { name: 'what', value: (r) => JSON.stringify(r.line), cell: (r) => whatChanged(r.line, r.older) },
    { name: 'at (UTC)', kind: 'time', value: (r) => r.line.at },
    { name: 'by key', value: (r) => r.line.by ?? null, cell: (r) => (r.line.by ? h('code', {}, id(r.line.by)) : '–') },
    { name: 'kind', value: (r) => r.line.type }] });
}

function audited(page) {
  const host = h('div', {}), more = h('div', {});
  let all = [];
  const older = async () => {
    try {
      const got = await trail(page, all.at(-1)?.seq);
      all = [...all, ...got.slice(0, PAGE)];
      host.replaceChildren(trailTable(page, all));
      more.replaceChildren(got.length > PAGE ? button('Older ones', older, { id: 'older' }) : '');
    } catch (fault) {
      if (fault.name === 'AbortError') return;
      host.replaceChildren(page.refuse(fault));
    }
  };
  older();
  return h('section', {}, h('h2', {}, 'Changes'), host, more);
}

/* --- keys ------------------------------------------------------------------------------------------------------------ */

const LIVES = [['3600', 'an hour'], ['28800', 'eight hours'], ['2592000', '30 days'], ['', 'without an end']];

function keysOf(page, list, again) {
  if (list === null) return h('section', {}, h('h2', {}, 'Keys'), h('p', { id: 'no-keys' }, 'This key may not manage the tenant: it sees no keys, and changes nothing here.'));
  const said = h('div', { role: 'status' });
  const make = async (event) => {
    event.preventDefault();
    const form = event.target.elements;
    const roles = ['decide', 'read', 'manage'].filter((r) => form[r].checked);
    const body = { roles, ...(form.label.value ? { label: form.label.value } : {}), ...(form.life.value ? { expires_in_s: Number(form.life.value) } : {}) };
    let shown = null;
    const made = await change({ tenant: page.tenant, title: 'Make a key', done: 'The key is made.', words: ['A key with the roles ', roles.join(', ') || '(none)', '. It is shown once.'], doIt: async () => { shown = await call('POST', of(page.tenant, 'keys'), { body }); } });
    if (!made) return;
    said.replaceChildren(h('div', { class: 'card' }, h('p', {}, 'The key, shown this once: '), h('p', {}, h('code', { id: 'new-key' }, shown.key)), button('I have it', again)));
  };
  const revoke = (k) => change({ tenant: page.tenant, title: 'Revoke the key', done: 'The key is revoked.', words: ['The key ', h('code', {}, k.id), ' is good for nothing any more, at once.'], doIt: () => call('DELETE', of(page.tenant, 'keys', k.id)) }).then((made) => made && again());
  return h('section', {}, h('h2', {}, 'Keys'), said, notHere('To make or revoke keys'),
    table({ id: 'keys', name: 'keys', caption: 'Keys of this tenant', rows: list, none: 'There are none.', columns: [
      { name: 'key', value: (k) => k.id, cell: (k) => h('code', {}, k.id) },
      { name: 'label', kind: 'id', value: (k) => k.label },
      { name: 'roles', value: (k) => k.roles.join(' ') },
      { name: 'made', kind: 'time', value: (k) => k.created_at },
      { name: 'last used', kind: 'time', value: (k) => k.last_used_at },
      { name: 'ends', kind: 'time', value: (k) => k.expires_at },
      ...(isShared() ? [] : [{ name: 'revoke', value: () => null, cell: (k) => button('Revoke', () => revoke(k), { class: 'small', 'aria-label': `Revoke the key ${k.id}` }) }])] }),
    isShared() ? null : h('details', {}, h('summary', {}, 'Make a key'),
      h('form', { class: 'controls', onsubmit: make, id: 'make-key' },
        h('fieldset', {}, h('legend', {}, 'Roles'), ['decide', 'read', 'manage'].map((r) => h('label', { class: 'check' }, h('input', { type: 'checkbox', name: r, checked: r === 'read' }), r))),
        field('Label', { name: 'label' }), field('Good for', { name: 'life', chosen: '28800' }, LIVES), h('button', { type: 'submit' }, 'Make a key'))));
}

/* --- limits ------------------------------------------------------------------------------------------------------------ */

const limitsOf = (limits) => h('section', {}, h('h2', {}, 'Limits'),
  h('p', { id: 'limits' }, limits.rate === 0 ? 'No limit on the work of this tenant' : [`${num(limits.rate)} tokens come in a second, ${num(limits.burst)} can be saved up`],
    limits.own ? ', set for this tenant.' : ', by the options of the server.',
    limits.available === null ? '' : [' There are now ', h('span', { class: 'with-bar', id: 'available' }, bar(limits.burst > 0 ? limits.available / limits.burst : 0), num(limits.available)), '.']));

/* --- the screen ---------------------------------------------------------------------------------------------------------- */

export function audit(page) {
  const { signal } = page;
  const held = page.renewed((live, again) => live(async () => ({ keys: (await mayManage(page.tenant, { signal })) ? (await unless([403], { keys: null }, get(of(page.tenant, 'keys'), { signal }))).keys : null }),
    ({ keys }) => keysOf(page, keys, again), 0));
  return h('div', {}, h('h1', {}, 'Audit of ', id(page.tenant)), audited(page), held, page.live(() => get(of(page.tenant, 'limits'), { signal }), limitsOf, 10));
}
