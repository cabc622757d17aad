/* Refusals, as people read them. */
import { h } from './dom.js';
import { Problem } from './api.js';

/** A refusal in the server's words, with each fault of a body. */
export function told(fault) {
  if (!(fault instanceof Problem)) throw fault;
  return h('div', { class: 'problem', role: 'alert' },
    h('h2', {}, fault.title ?? 'Refused'),
    h('p', {}, fault.message),
    fault.errors.length ? h('ul', {}, fault.errors.map((e) => h('li', {}, h('code', {}, e.pointer || '/'), ': ', e.detail))) : null,
    fault.retryAfter ? h('p', {}, `The server asks to come again in ${fault.retryAfter} s.`) : null,
    fault.instance ? h('p', { class: 'fine' }, 'For the log: ', h('code', {}, fault.instance.replace('urn:laplaced:request:', ''))) : null);
}
