/* Elements made of plain values. Text only ever becomes a text node, so no id can become markup; the page's policy
 * (trusted types) holds the rest of the scripts to the same. */

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  add(element, children);
  return element;
}

function add(element, child) {
  if (child === undefined || child === null || child === false) return;
  if (Array.isArray(child)) for (const one of child) add(element, one);
  else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
}

/** An element of HTML: attributes, `onclick` and the like as functions; children are nodes, texts, numbers, lists. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** An element of SVG. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** A name that somebody else chose: it may turn direction, so it is set apart from the text around it. */
export const id = (text) => h('bdi', { class: 'id' }, text);

/** A link to a place of this page; parts are escaped. */
export const to = (parts, ...children) => h('a', { href: place(parts) }, ...children);
export const place = (parts) => '#/' + parts.map(encodeURIComponent).join('/');

/** The same where no element can set it apart, as in a list to choose from: what turns direction is spelled out. */
export const spelled = (name) => name.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`);

/** Says it to those who listen rather than look. */
export function say(text) {
  document.getElementById('status').textContent = text;
}

export const button = (text, onclick, properties) => h('button', { type: 'button', onclick, ...properties }, text);

/** A labelled input: `field('User', {name: 'user'})`. */
export function field(label, properties, options) {
  const control = options
    ? h('select', properties, options.map(([value, text]) => h('option', { value, selected: value === properties.chosen }, spelled(text))))
    : h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', ...properties });
  return h('label', { class: 'field' }, h('span', {}, label), control);
}

/** A labelled field of several lines. */
export const area = (label, properties) => h('label', { class: 'field' }, h('span', {}, label), h('textarea', { spellcheck: 'false', autocomplete: 'off', ...properties }));

/** Offers text as a file. */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h('a', { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
