/* A server that has decided nothing yet: how to begin, and a town to play with. */
import { h, button, to, id, say } from './dom.js';
import { call, get, of, Problem } from './api.js';
import { count, num, meanOf, range } from './format.js';
import { told } from './told.js';
import { makeTown } from './town.js';

const RECIPES = [
  ['A/B routing of three variants with a holdout', `H=${location.origin}
curl -X PUT $H/tenants/page -d '{"algorithm":"ts","rule":{"epsilon":0.2},"routing":{"holdout":{"share":0.1,"baseline":{"arm":"red"}}}}'
curl -H 'Laplaced-Tenant: page' $H/select -d '{"user":"u1","candidates":["red","green","blue"],"decision":"v1"}'
curl -H 'Laplaced-Tenant: page' $H/reward -d '{"decision":"v1","reward":1}'`],
  ['Recommending along a friendship graph', `laplacectl tenant put films --set algorithm=laplaced-kors
laplacectl graph put friends.csv --tenant films
laplacectl arms put films.csv --tenant films
laplacectl observe ann film03 1 --tenant films
laplacectl select bob --top 3 --tenant films`],
  ["Replaying yesterday's log", `laplacectl events --tenant page > yesterday.ndjson
laplacectl evaluate --format ndjson --policy logged --policy uniform yesterday.ndjson
laplacectl tenant put rehearsal --set algorithm=ucb
laplacectl replay yesterday.ndjson --tenant rehearsal`],
];

const ROUNDS = 1500, AT_ONCE = 6;

function freeName(list) {
  const taken = new Set(list.map((t) => t.name));
  let n = 1;
  while (taken.has(`town-${n}`)) n++;
  return `town-${n}`;
}

/** Plays the town into a tenant of its own; tell() hears now and then how far it is. */
async function play(tenant, town, signal, tell) {
  await call('PUT', of(tenant), { body: town.configuration, signal });
  await call('PUT', of(tenant, 'graph'), { body: { edges: town.edges }, signal });
  await call('PUT', of(tenant, 'arms'), { body: { arms: town.arms.map((one) => ({ id: one })) }, signal });
  const so = { round: 0, sum: 0, chance: 0 };
  let next = 0;
  const visitor = async () => {
    while (next < ROUNDS && !signal.aborted) {
      const round = next++;
      const visit = town.visit(round);
      const answer = await call('POST', '/select', { tenant, signal, body: { user: visit.user, decision: `${tenant}-${round}` } });
      const reward = visit.rewards[town.arms.indexOf(answer.arm)];
      await call('POST', '/reward', { tenant, signal, body: { decision: answer.decision, reward } });
      so.round++;
      so.sum += reward;
      so.chance += visit.rewards[visit.byChance];
      if (so.round % 25 === 0) tell(so);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, visitor));
  tell(so);
}

function townPlayer() {
  const place = h('div', { id: 'town' });
  const start = async () => {
    const ending = new AbortController();
    const progress = h('progress', { max: ROUNDS, value: 0, 'aria-label': 'Visits played' });
    const said = h('p', {}, 'Making a tenant …');
    let tenant = '';
    const stop = button('Cancel', () => ending.abort());
    place.replaceChildren(progress, said, stop);
    try {
      tenant = freeName((await get('/tenants')).tenants);
      await play(tenant, makeTown(1), ending.signal, (so) => {
        progress.value = so.round;
        const mine = meanOf(so.round, so.sum, so.sum), chance = meanOf(so.round, so.chance, so.chance);
        said.replaceChildren(`${count(so.round)} visits: laplaced has earned ${num(mine.mean)} ${range(mine.low, mine.high)} a visit, chance would have earned ${num(chance.mean)} ${range(chance.low, chance.high)}.`);
      });
      stop.remove();
      say('The town is played.');
      place.append(h('p', {}, 'Look at ', to(['t', tenant, 'traffic'], 'what it earned'), ', ', to(['t', tenant, 'decision'], 'why it decided so'), ', ', to(['t', tenant, 'neighbours'], 'what the graph does'), ' or ', to(['t', tenant, 'model'], 'what the model says'), '.'));
    } catch (fault) {
      stop.remove();
      if (fault.name === 'AbortError') said.append(' Cancelled; the tenant ', id(tenant), ' keeps what it has learned.');
      else if (fault instanceof Problem) place.append(told(fault));
      else throw fault;
    }
  };
  place.append(button(`Play a town of 60 people`, start, { class: 'primary', id: 'play' }));
  return place;
}

/** A town to play, and the recipes. */
export const beginnings = () => [
  h('section', { class: 'card' },
    h('h2', {}, 'See it learn'),
    h('p', {}, `Sixty people in three circles of friends; each circle likes other things. This page sends ${count(ROUNDS)} of their visits through the server, into a tenant of its own, and you see what the server makes of them.`),
    townPlayer()),
  ...RECIPES.map(([title, text]) => h('section', { class: 'card' }, h('h2', {}, title), h('pre', { tabindex: 0, 'aria-label': `Commands: ${title}` }, h('code', {}, text)))),
];
