/* Numbers, times and intervals as texts. What is not known is a dash. */

export const NONE = '–';
const NORMAL_975 = 1.959963984540054; /* 2.5 % of the standard normal lie beyond */

/** Four digits that count. */
export const num = (x) => (x === null || x === undefined || !Number.isFinite(x) ? NONE : String(Number(x.toPrecision(4))));

/** A whole number, in groups of three. */
export const count = (n) => (n === null || n === undefined ? NONE : String(n).replace(/\B(?=(\d{3})+$)/g, ','));

/** A share of 1. */
export function percent(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return NONE;
  if (x !== 0 && Math.abs(x) < 1e-4) return '< 0.01 %';
  return `${Number((100 * x).toPrecision(3))} %`;
}

/** An interval, as [low, high]. */
export const range = (low, high, shown = num) => (known(low) && known(high) ? `[${shown(low)}, ${shown(high)}]` : NONE);
export const known = (x) => x !== null && x !== undefined && Number.isFinite(x);

/** 2026-11-26 09:12:51, in the log's own time. */
export const time = (at) => (at ? `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')}` : NONE);
export const clock = (ms) => new Date(ms).toISOString().slice(11, 16);
export const day = (ms) => new Date(ms).toISOString().slice(5, 10);

export function bytes(n) {
  if (!known(n)) return NONE;
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (n < 1000 || unit === 'GB') return `${Number(n.toPrecision(3))} ${unit}`;
    n /= 1000;
  }
  return NONE;
}

/** How long a time is, in words. */
export function duration(ms) {
  if (!known(ms)) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  for (const [name, size] of [['day', 86400], ['h', 3600], ['min', 60]])
    if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${name}${name === 'day' ? 's' : ''}`;
  return `${Number(seconds.toPrecision(2))} s`;
}

/**
 * Mean with its 95 % interval, from sums that the server tells. Rewards of 0 and 1 (whose squares sum up to what they
 * do) have Wilson's interval, others that of the normal approximation, as the server's own for routes.
 * @returns {{n: number, mean: ?number, low: ?number, high: ?number}}
 */
export function meanOf(n, sum, squareSum) {
  if (!n) return { n, mean: null, low: null, high: null };
  const mean = sum / n;
  if (isBinary(sum, squareSum)) return { n, mean, ...wilson(mean, n) };
  if (n < 2) return { n, mean, low: null, high: null };
  const half = NORMAL_975 * Math.sqrt(Math.max(0, squareSum - n * mean * mean) / (n - 1) / n);
  return { n, mean, low: mean - half, high: mean + half };
}

export const isBinary = (sum, squareSum) => Math.abs(sum - squareSum) <= 1e-9 * Math.max(1, Math.abs(sum));

export function wilson(mean, n) {
  const z2 = NORMAL_975 ** 2;
  const middle = (mean + z2 / (2 * n)) / (1 + z2 / n);
  const half = (NORMAL_975 / (1 + z2 / n)) * Math.sqrt((mean * (1 - mean)) / n + z2 / (4 * n * n));
  return { low: mean === 0 ? 0 : Math.max(0, middle - half), high: mean === 1 ? 1 : Math.min(1, middle + half) };
}
