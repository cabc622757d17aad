/* A small town, the same for the same seed: circles of friends who like other things. */

/** Numbers in [0, 1) of a seed (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
  };
}

const CIRCLES = ['harbour', 'hill', 'market'], SIZE = 20;
const ARMS = ['jazz', 'rock', 'techno', 'folk', 'opera', 'punk'];
/* How probably somebody of a circle likes an arm. */
const TASTE = [[0.75, 0.2, 0.1, 0.35, 0.3, 0.05], [0.1, 0.7, 0.3, 0.15, 0.05, 0.5], [0.15, 0.25, 0.7, 0.1, 0.2, 0.3]];

/**
 * @returns {{configuration: object, arms: string[], edges: [string, string, number][], users: string[],
 *            visit: function(number): {user: string, rewards: number[], byChance: number}}}
 */
export function makeTown(seed) {
  const draw = random(seed);
  const users = CIRCLES.flatMap((name) => Array.from({ length: SIZE }, (_, i) => `${name}-${i + 1}`));
  const edges = [];
  for (let a = 0; a < users.length; a++)
    for (let b = a + 1; b < users.length; b++) {
      const isNear = Math.floor(a / SIZE) === Math.floor(b / SIZE);
      if (draw() < (isNear ? 0.22 : 0.006) || (isNear && b === a + 1)) edges.push([users[a], users[b], 1]);
    }
  const visit = (round) => {
    const luck = random(seed * 1000003 + round);
    const who = Math.floor(luck() * users.length);
    const rewards = TASTE[Math.floor(who / SIZE)].map((p) => (luck() < p ? 1 : 0));
    return { user: users[who], rewards, byChance: Math.floor(luck() * ARMS.length) };
  };
  return { configuration: { algorithm: 'laplaced', log_candidates: true }, arms: ARMS, edges, users, visit };
}
