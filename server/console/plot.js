/* Drawings over time, and small ones in the cells of tables, in SVG. No text of others stands in them: names are in
 * the legends and tables beside them, as text of the page. */
import { h, s, id } from './dom.js';
import { num, clock, day, known } from './format.js';

const LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 24;

/** Round values between low and high, about n of them. */
export function ticks(low, high, n) {
  const raw = (high - low) / Math.max(1, n);
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((one) => one >= raw) ?? power;
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) all.push(Number((i * step).toPrecision(12)));
  return all;
}

const MINUTE = 60000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
function timeTicks(low, high, n) {
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7200, 14400].map((m) => m * MINUTE).find((one) => (high - low) / one <= n) ?? 30 * DAY;
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) all.push({ at, text: step >= DAY ? day(at) : clock(at) });
  return all;
}

/** The class of series i: a colour of the style sheet. Those beyond share one. */
export const colour = (i) => `c${i >= 0 && i < 8 ? i : 'x'}`;

/** A legend: names of others, each beside its colour. */
export const legend = (items) => h('ul', { class: 'legend' },
  items.map((one) => h('li', {}, h('span', { class: `swatch ${one.colour}`, 'aria-hidden': 'true' }), one.isId ? id(one.name) : one.name)));

/**
 * A drawing as wide as its place, made again when that changes. Pointer and arrow keys move over its places in x;
 * read(i) words what stands there: a text, or texts and names set apart.
 */
export function drawing(label, height, draw, reader) {
  const output = h('output', { class: 'reading' }, reader ? ' ' : '');
  const host = h('div', { class: 'plot', role: 'img', 'aria-label': label, tabindex: reader ? 0 : null });
  let scale = null, at = -1;
  const paint = () => {
    const width = Math.max(220, Math.floor(host.clientWidth));
    const made = draw(width, height);
    scale = made.scale;
    host.replaceChildren(made.svg);
    if (at >= 0) point(at);
  };
  const point = (i) => {
    if (!reader || !scale || reader.xs.length === 0) return;
    at = Math.max(0, Math.min(reader.xs.length - 1, i));
    output.replaceChildren(...[reader.read(at)].flat(Infinity));
    const x = scale(reader.xs[at]);
    host.querySelector('.cursor')?.remove();
    host.querySelector('svg').append(s('line', { class: 'cursor', x1: x, x2: x, y1: TOP, y2: height - BOTTOM }));
  };
  if (reader) {
    host.addEventListener('pointermove', (event) => {
      if (!scale || reader.xs.length === 0) return;
      const x = event.clientX - host.getBoundingClientRect().left;
      let best = 0;
      reader.xs.forEach((value, i) => { if (Math.abs(scale(value) - x) < Math.abs(scale(reader.xs[best]) - x)) best = i; });
      point(best);
    });
    host.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      point(at < 0 ? (step > 0 ? 0 : reader.xs.length - 1) : at + step);
    });
  }
  let width = 0;
  new ResizeObserver(() => {
    if (host.clientWidth === width || host.clientWidth === 0) return;
    width = host.clientWidth;
    paint();
  }).observe(host);
  return h('div', { class: 'drawing' }, host, reader ? output : null);
}

const line = (from, to, factor) => (x) => from + (to - from) * factor(x);

function frame(o, width, height) {
  const x = line(LEFT, width - RIGHT, (v) => (v - o.x0) / (o.x1 - o.x0 || 1));
  const y = line(height - BOTTOM, TOP, (v) => (v - o.y0) / (o.y1 - o.y0 || 1));
  const svg = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' });
  for (const v of ticks(o.y0, o.y1, 5)) {
    svg.append(s('line', { class: 'grid', x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v) }));
    svg.append(s('text', { class: 'tick', x: LEFT - 6, y: y(v) + 4, 'text-anchor': 'end' }, o.percent ? `${num(100 * v)} %` : num(v)));
  }
  const across = Math.max(2, Math.floor((width - LEFT) / 80));
  const along = o.along ?? (o.isTime === false ? ticks(o.x0, o.x1, across).map((at) => ({ at, text: num(at) })) : timeTicks(o.x0, o.x1, across));
  for (const tick of along)
    svg.append(s('text', { class: 'tick', x: Math.min(width - 18, x(tick.at)), y: height - 6, 'text-anchor': 'middle' }, tick.text));
  return { svg, x, y };
}

function marks(svg, x, list, height) {
  for (const mark of list ?? [])
    svg.append(s('line', { class: 'mark', x1: x(mark), x2: x(mark), y1: TOP, y2: height - BOTTOM }));
}

/** The ends in y that points and their intervals fit between: those of lines by themselves, and of several pictures on one scale. */
export function sameEnds(points, zero = false) {
  const values = points.flatMap((p) => [p.y ?? p.mean, p.low, p.high]).filter(known);
  const most = Math.max(...values, zero ? 0 : -Infinity), least = Math.min(...values, zero ? 0 : Infinity);
  const pad = (most - least || Math.abs(most) || 1) * 0.06;
  return { y0: zero && least === 0 ? 0 : least - pad, y1: most + pad };
}

/**
 * Lines with the band of their intervals.
 * @param {{series: {colour: string, points: {x: number, y: number, low?: number, high?: number}[], noBand?: boolean}[], marks?: number[],
 *          x0: number, x1: number, y0?: number, y1?: number, zero?: boolean, isTime?: boolean, along?: {at: number, text: string}[]}} o
 */
export function lines(label, o, reader, height = 220) {
  const frameOf = { ...sameEnds(o.series.flatMap((one) => one.points), o.zero), ...o };
  const within = (v) => Math.max(frameOf.y0, Math.min(frameOf.y1, v)); /* what is wider than given ends is cut at them */
  return drawing(label, height, (width) => {
    const { svg, x, y } = frame(frameOf, width, height);
    marks(svg, x, o.marks, height);
    for (const one of o.series) {
      const at = one.points.filter((p) => known(p.y) && p.y >= frameOf.y0 && p.y <= frameOf.y1);
      const band = one.points.filter((p) => known(p.low) && known(p.high) && p.low <= frameOf.y1 && p.high >= frameOf.y0);
      const around = [...band.map((p) => `${x(p.x)},${y(within(p.high))}`), ...band.toReversed().map((p) => `${x(p.x)},${y(within(p.low))}`)];
      if (band.length > 1 && !one.bars) svg.append(s('polygon', { class: `band ${one.colour}`, points: around.join(' ') }));
      for (const p of one.bars || band.length === 1 ? band : [])
        svg.append(s('line', { class: `whisker ${one.colour}`, x1: x(p.x), x2: x(p.x), y1: y(within(p.low)), y2: y(within(p.high)) }));
      if (at.length > 1) svg.append(s('polyline', { class: `line ${one.colour}${one.dashed ? ' dashed' : ''}`, points: at.map((p) => `${x(p.x)},${y(p.y)}`).join(' ') }));
      for (const p of at.length < 40 ? at : []) svg.append(s('circle', { class: `dot ${one.colour}`, cx: x(p.x), cy: y(p.y), r: at.length > 1 ? 2.5 : 4 }));
    }
    return { svg, scale: x };
  }, reader);
}

/**
 * Shares that sum up to 1, as columns.
 * @param {{columns: {x: number, shares: number[]}[], colours: string[], marks?: number[], x0: number, x1: number, step: number}} o
 */
export function stacks(label, o, reader, height = 180) {
  return drawing(label, height, (width) => {
    const { svg, x, y } = frame({ ...o, y0: 0, y1: 1, percent: true }, width, height);
    const wide = Math.max(1.5, Math.min(60, x(o.x0 + o.step) - x(o.x0) - 1));
    for (const column of o.columns) {
      let below = 0;
      column.shares.forEach((share, i) => {
        if (share > 0) svg.append(s('rect', { class: `fill ${o.colours[i]}`, x: x(column.x) - wide / 2, width: wide, y: y(below + share), height: Math.max(0, y(below) - y(below + share)) }));
        below += share;
      });
    }
    marks(svg, x, o.marks, height);
    return { svg, scale: x };
  }, reader);
}

/**
 * Columns over ranges of positive numbers, on a scale of logarithms; what is 0 has a column of its own at the left.
 * @param {{low: number, high: number, n: number}[]} bins
 */
export function histogram(label, bins, read, height = 130) {
  const ends = bins.filter((b) => b.low > 0).flatMap((b) => [Math.log10(b.low), Math.log10(b.high)]);
  const from = ends.length ? Math.min(...ends) : 0, width_ = ends.length ? Math.max(...ends) - from : 1;
  const wide = width_ / Math.max(4, bins.length), placed = bins.map((b) => (b.low > 0 ? { ...b, x0: Math.log10(b.low), x1: Math.log10(b.high) } : { ...b, x0: from - 2 * wide, x1: from - wide }));
  const x0 = Math.min(...placed.map((b) => b.x0)), x1 = Math.max(...placed.map((b) => b.x1));
  const along = [...(placed.some((b) => b.low === 0) ? [{ at: from - 1.5 * wide, text: '0' }] : []), ...Array.from({ length: 11 }, (_, k) => k - 5).filter((k) => ends.length && k >= from - 1e-9 && k <= from + width_ + 1e-9).map((k) => ({ at: k, text: num(10 ** k) }))];
  return drawing(label, height, (width) => {
    const { svg, x, y } = frame({ x0, x1, y0: 0, y1: Math.max(...bins.map((b) => b.n)) * 1.05, along }, width, height);
    for (const b of placed) svg.append(s('rect', { class: 'fill c0', x: x(b.x0) + 0.5, width: Math.max(1, x(b.x1) - x(b.x0) - 1), y: y(b.n), height: Math.max(0, y(0) - y(b.n)) }));
    return { svg, scale: x };
  }, { xs: placed.map((b) => (b.x0 + b.x1) / 2), read: (i) => read(bins[i]) });
}

/* --- in cells ----------------------------------------------------------------------------------------------- */

const WIDE = 180, HIGH = 18;

/** Where the cells of a column lie between low and high: the same for all of them. */
export function span(values, ...further) {
  const all = [...values, ...further].filter(known);
  const low = Math.min(...all), high = Math.max(...all);
  const pad = (high - low || Math.abs(high) || 1) * 0.05;
  return all.length ? { low: low - pad, high: high + pad } : { low: 0, high: 1 };
}
const across = (at, v) => 3 + ((WIDE - 6) * (v - at.low)) / (at.high - at.low || 1);

/** The head of such a column: its ends. */
export function axis(at) {
  const svg = s('svg', { class: 'axis', width: WIDE, height: 14, 'aria-hidden': 'true' });
  const shown = ticks(at.low, at.high, 3);
  for (const v of shown) svg.append(s('text', { class: 'tick', x: Math.max(10, Math.min(WIDE - 10, across(at, v))), y: 11, 'text-anchor': 'middle' }, num(v)));
  return svg;
}

/** A dot with its interval; `more` further dots. */
export function whisker(at, mean, low, high, kind = 'c0', zero = undefined) {
  const svg = s('svg', { class: 'cell', width: WIDE, height: HIGH, 'aria-hidden': 'true' });
  if (known(zero) && zero > at.low && zero < at.high) svg.append(s('line', { class: 'zero', x1: across(at, zero), x2: across(at, zero), y1: 0, y2: HIGH }));
  if (known(low) && known(high)) svg.append(s('line', { class: `whisker ${kind}`, x1: across(at, low), x2: across(at, high), y1: HIGH / 2, y2: HIGH / 2 }));
  if (known(mean)) svg.append(s('circle', { class: `dot ${kind}`, cx: across(at, mean), cy: HIGH / 2, r: 4 }));
  return svg;
}

/** A bar from 0 to a value of either sign. */
export function signed(at, value, kind = 'c0') {
  const svg = s('svg', { class: 'cell', width: WIDE, height: HIGH, 'aria-hidden': 'true' });
  const zero = across(at, 0), end = known(value) ? across(at, value) : zero;
  svg.append(s('rect', { class: `fill ${kind}`, x: Math.min(zero, end), y: 4, width: Math.max(value ? 1 : 0, Math.abs(end - zero)), height: HIGH - 8 }));
  svg.append(s('line', { class: 'zero', x1: zero, x2: zero, y1: 0, y2: HIGH }));
  return svg;
}

/** A bar of a share of 1. */
export function bar(share, kind = 'c0', width = 90) {
  return s('svg', { class: 'cell', width, height: HIGH, 'aria-hidden': 'true' },
    s('rect', { class: 'track', x: 0, y: 4, width, height: HIGH - 8, rx: 2 }),
    known(share) ? s('rect', { class: `fill ${kind}`, x: 0, y: 4, width: Math.max(share > 0 ? 1 : 0, width * Math.min(1, share)), height: HIGH - 8, rx: 2 }) : null);
}

/** A line without axes. */
export function spark(values, kind = 'c0', width = 120, height = 24) {
  const at = values.map((v, i) => [i, v]).filter(([, v]) => known(v));
  const most = Math.max(...at.map(([, v]) => v)), least = Math.min(...at.map(([, v]) => v));
  const x = (i) => 2 + ((width - 4) * i) / Math.max(1, values.length - 1), y = (v) => height - 3 - ((height - 6) * (v - least)) / (most - least || 1);
  return s('svg', { class: 'cell', width, height, 'aria-hidden': 'true' },
    at.length > 1 ? s('polyline', { class: `line ${kind}`, points: at.map(([i, v]) => `${x(i)},${y(v)}`).join(' ') })
      : at.map(([i, v]) => s('circle', { class: `dot ${kind}`, cx: x(i), cy: y(v), r: 3 })));
}
