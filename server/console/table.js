/* Tables: rows of values with a caption, and the same as CSV. */
import { h, id, button, download } from './dom.js';
import { num, count, percent, range, time } from './format.js';

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {function(object): any} value what the cell is about, as CSV has it
 * @property {'id'|'num'|'count'|'percent'|'time'|'word'|'text'} [kind] how it is shown; text by default, a word is text on one line
 * @property {function(object): Node|string} [cell] shown instead
 * @property {Node} [head] beside the name
 */

const SHOWN = { num, count, percent, time };

/** A column of two numbers that are one interval; CSV has both. shown: how one of them is written. */
export const interval = (name, low, high, shown = num) => ({ name, kind: 'interval', low, high, value: low, cell: (row) => range(low(row), high(row), shown) });

function cell(column, row) {
  const value = column.value(row);
  const shown = column.cell ? column.cell(row)
    : column.kind === 'id' ? id(value ?? '–')
    : SHOWN[column.kind] ? SHOWN[column.kind](value) : value ?? '–';
  const isNumber = ['num', 'count', 'percent', 'interval'].includes(column.kind);
  return h('td', { class: isNumber ? 'number' : column.kind === 'plot' ? 'picture' : column.kind === 'time' || column.kind === 'word' ? column.kind : null }, shown);
}

/** Text that a spreadsheet would take for a formula is marked as text. */
function csvCell(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** What a table says, as CSV (RFC 4180). */
export function csv(columns, rows) {
  const parts = columns.filter((c) => c.kind !== 'plot').flatMap((c) => c.kind === 'interval'
    ? [{ name: `${c.name} low`, value: c.low }, { name: `${c.name} high`, value: c.high }] : [c]);
  return [parts.map((c) => csvCell(c.name)), ...rows.map((row) => parts.map((c) => csvCell(c.value(row))))]
    .map((line) => line.join(',')).join('\r\n') + '\r\n';
}

const FIRST = 15; /* rows of a long table that are seen at once */

/** The rows beyond the first ones, when they are asked for. */
function more(rest) {
  const ask = button(`Show ${rest.length} more`, () => {
    for (const row of rest) row.hidden = false;
    ask.remove();
  }, { class: 'small' });
  for (const row of rest) row.hidden = true;
  return ask;
}

/**
 * @param {{caption: string, columns: Column[], rows: object[], name: string, id?: string, none?: string}} t name: of the CSV file
 */
export function table(t) {
  const made = t.rows.map((row) => h('tr', { class: t.mark?.(row) ? 'marked' : null }, t.columns.map((c) => cell(c, row))));
  return h('div', { class: 'tabled' },
    h('div', { class: 'scroll', role: 'region', tabindex: 0, 'aria-label': t.caption },
      h('table', { id: t.id },
        h('caption', {}, t.caption),
        h('thead', {}, h('tr', {}, t.columns.map((c) => h('th', { scope: 'col', class: ['num', 'count', 'percent', 'interval'].includes(c.kind) ? 'number' : null }, c.name, c.head)))),
        h('tbody', {}, made))),
    t.rows.length === 0 ? h('p', { class: 'none' }, t.none ?? 'Nothing yet.') : null,
    t.rows.length > FIRST + 3 ? more(made.slice(FIRST)) : null, ' ',
    t.rows.length === 0 ? null
      : button('CSV', () => download(`${t.name}.csv`, 'text/csv;charset=utf-8', csv(t.columns, t.rows)), { class: 'small', 'aria-label': `${t.caption}, as CSV` }));
}

/** A picture with its numbers below, folded. */
export function figure(title, picture, numbers, ...notes) {
  return h('figure', {}, h('figcaption', {}, title), picture, notes,
    numbers ? h('details', {}, h('summary', {}, 'The numbers'), numbers) : null);
}
