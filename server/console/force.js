/* Where users stand in the picture of a neighbourhood: users push each other off, edges pull to a length, and all of
 * them lean to the middle a little, so that parts without edges between them stay in sight. A step costs n²/2 pushes:
 * 45,000 for 300 users, some 1 ms; so there is no tree of near and far. The same graph gives the same picture. */

const GOLDEN = Math.PI * (3 - Math.sqrt(5));

/**
 * @param {{hops: number}[]} users nearest first
 * @param {{from: number, to: number}[]} edges places in users
 */
export function layout(users, edges) {
  const n = users.length;
  const x = new Float64Array(n), y = new Float64Array(n), fx = new Float64Array(n), fy = new Float64Array(n), degree = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    x[i] = Math.sqrt(i) * Math.cos(i * GOLDEN);
    y[i] = Math.sqrt(i) * Math.sin(i * GOLDEN);
  }
  for (const e of edges) {
    degree[e.from]++;
    degree[e.to]++;
  }
  const LENGTH = 1.6; /* of an edge; users of one hub get room around it */
  let heat = 1;

  /** One step; false when all has come to rest. */
  function step() {
    if (heat < 0.008) return false;
    fx.fill(0);
    fy.fill(0);
    for (let i = 0; i < n; i++)
      for (let j = i + 1; j < n; j++) {
        const dx = x[i] - x[j], dy = y[i] - y[j], f = 1.1 / (dx * dx + dy * dy + 0.01);
        fx[i] += f * dx; fy[i] += f * dy; fx[j] -= f * dx; fy[j] -= f * dy;
      }
    for (const { from, to } of edges) {
      const dx = x[to] - x[from], dy = y[to] - y[from], d = Math.sqrt(dx * dx + dy * dy) + 1e-9;
      const least = Math.min(degree[from], degree[to]), most = Math.max(degree[from], degree[to]);
      const pull = ((d - LENGTH * Math.sqrt(1 + most / 12)) / d) * (1.4 / Math.sqrt(least));
      fx[from] += pull * dx; fy[from] += pull * dy; fx[to] -= pull * dx; fy[to] -= pull * dy;
    }
    for (let i = 0; i < n; i++) {
      fx[i] -= 0.08 * x[i];
      fy[i] -= 0.08 * y[i];
      const length = Math.sqrt(fx[i] * fx[i] + fy[i] * fy[i]) + 1e-9, go = Math.min(0.25 * length, heat) / length;
      x[i] += go * fx[i];
      y[i] += go * fy[i];
    }
    heat *= 0.98;
    return true;
  }
  return { x, y, step };
}
