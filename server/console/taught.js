/* Who taught the model what it expects of an arm for a user: the terms of its mean, by the users whose rewards they come from. */
import { h, id, to } from './dom.js';
import { call, of } from './api.js';
import { table } from './table.js';
import { axis, span, signed } from './plot.js';
import { num, count } from './format.js';

const MOST = 10; /* users who are named */

/** What a model says of it: an answer's `neighbours`. The arm is its name, or a candidate with features of its own. */
export async function ask(tenant, user, arm, context, signal) {
  const body = { users: [user], arms: [arm], neighbours: MOST, ...(context ? { context } : {}) };
  return (await call('POST', of(tenant, 'posterior'), { body, signal })).neighbours;
}

/** Why it is not told: a model that has learned very much would hold up decisions to name them, which is no fault of the reader's. */
export function untold(page, fault) {
  if (fault.limit !== 'neighbours_work') return page.refuse(fault);
  return h('p', { class: 'fine', id: 'untold' }, 'Who taught it cannot be shown: this model has learned from so many rewards that finding out would hold up decisions. The mean and its bounds stand all the same.');
}

function sentence(user, told) {
  const own = told.terms.find((t) => t.user === user);
  const rest = told.mean - told.prior - (own?.term ?? 0);
  if (told.terms.length === 0) return h('p', {}, 'No reward has taught the model anything of it: ', h('strong', {}, num(told.mean)), ' is what it expects where it knows nothing.');
  return h('p', {}, 'Of the expected ', h('strong', {}, num(told.mean)), `, ${num(told.prior)} is what the model expects where it knows nothing, `,
    own ? [`${num(own.term)} comes from rewards of `, id(user), ` and ${num(rest)} from those of others.`] : `and ${num(rest)} comes from rewards.`);
}

/** The terms as bars and numbers; those of all rows sum up to the mean. */
export function taught(tenant, user, told, context) {
  const rows = [
    ...told.terms.map((t) => ({ from: t.user === user ? 'the user' : 'another user', ...t })),
    ...(told.others.users > 0 ? [{ from: `${count(told.others.users)} others`, user: null, term: told.others.term, rewards: null, mean_reward: null }] : []),
    { from: 'knowing nothing', user: null, term: told.prior, rewards: null, mean_reward: null }];
  const scale = span(rows.map((r) => r.term), 0);
  return h('div', { class: 'taught' }, sentence(user, told),
    told.tells_users_apart ? null : h('p', { class: 'fine' }, 'This model does not compare users: each reward counts the same, whoever gave it.'),
    table({ id: 'taught', name: 'taught', rows, mark: (r) => r.user === user, caption: 'What is known of it comes from: what each user’s rewards add to the mean. All rows sum up to it', columns: [
      { name: 'from', kind: 'word', value: (r) => r.from },
      { name: 'user', kind: 'id', value: (r) => r.user, cell: (r) => (r.user === null ? '–' : to(['t', tenant, 'decision', 'now', r.user, ...(context ? [JSON.stringify(context)] : [])], id(r.user))) },
      { name: 'adds', kind: 'num', value: (r) => r.term },
      { name: '', kind: 'plot', head: axis(scale), value: () => null, cell: (r) => signed(scale, r.term, r.user === user ? 'c1' : 'c0') },
      { name: 'rewards', kind: 'num', value: (r) => r.rewards },
      { name: 'their mean', kind: 'num', value: (r) => r.mean_reward }] }));
}
