/* What lines of a log say of its decisions. */
import { lines as linesOf, of } from './api.js';

export const LINES = 20000; /* of the newest, where a picture is made of lines */

/**
 * Decisions in their order, each with what it earned: the last reward, or their sum where the tenant adds up.
 * @param {object[]} newestFirst lines of the log
 * @param {?number} version of the configuration in force before the first of them; null: not known
 * @returns {{at: string, user: string, arm: string, route: string, version: ?number, reward: ?number}[]}
 */
export function decisionsOf(newestFirst, aggregation, version = null) {
  const decisions = new Map();
  for (const e of newestFirst.toReversed()) {
    if (e.type === 'configured') version = e.version;
    else if (e.type === 'decided') decisions.set(e.decision, { at: e.at, user: e.user, arm: e.arm, route: e.route ?? 'policy', version, reward: null });
    else if (e.reward !== undefined && decisions.has(e.decision)) {
      const d = decisions.get(e.decision);
      if (e.arm === undefined || e.arm === d.arm) d.reward = aggregation === 'sum' ? (d.reward ?? 0) + e.reward : e.reward;
    }
  }
  return [...decisions.values()];
}

/** The context of the newest decision or observation of the user among the newest lines; null: there is none. */
export async function newestContext(tenant, user, signal) {
  const list = await linesOf(`${of(tenant, 'events')}?type=decided,observed&limit=${LINES}`, { signal });
  return list.find((line) => line.user === user)?.context ?? null;
}
