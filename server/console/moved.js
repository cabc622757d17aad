/* Which named features moved what the model expects of an arm: each is the question asked again without it. */
import { h, id } from './dom.js';
import { call, of } from './api.js';
import { table } from './table.js';
import { axis, span, signed } from './plot.js';
import { num, count } from './format.js';

const MOST = 20; /* features that are named */

/** An answer's `features`. */
export async function askMoved(tenant, user, arm, context, signal) {
  const body = { users: [user], arms: [arm], features: MOST, ...(context ? { context } : {}) };
  return (await call('POST', of(tenant, 'posterior'), { body, signal })).features;
}

export function moved(told) {
  const scale = span(told.changes.map((c) => c.change), 0);
  return h('section', { id: 'features' }, h('h3', {}, 'Which features moved it?'),
    h('p', { class: 'fine' }, 'By how much the mean of ', id(told.arm), `, ${num(told.mean)}, is more with the feature than without it. These need not sum up to the mean`, told.others > 0 ? `; ${count(told.others)} smaller ones are not named` : '', '.'),
    table({ id: 'moved', name: 'features', caption: 'Named features, by how much they moved the mean', rows: told.changes, none: 'It has no features.', columns: [
      { name: 'of', kind: 'word', value: (c) => c.of },
      { name: 'feature', kind: 'id', value: (c) => c.feature },
      { name: 'change', kind: 'num', value: (c) => c.change },
      { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (c) => signed(scale, c.change) }] }));
}
