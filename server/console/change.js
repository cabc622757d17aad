/* Changes are asked for twice: the second time by the tenant's name, typed. Three are not, for they take nothing away that
 * cannot be had again: an evaluation is begun, or cancelled, and a town is played into a tenant of its own. */
import { h, id, button, say } from './dom.js';
import { Problem, isShared } from './api.js';
import { told } from './told.js';

/** Why something cannot be had of this server, before anybody asks for it; null: it can. `what` begins the sentence. */
export const notHere = (what) => (isShared() ? h('p', { class: 'fine not-here' }, `${what} cannot be done yet where several servers share a log (--log).`) : null);

/**
 * Asks, then does it; what the server refuses is shown where it was asked.
 * @param {{tenant: string, title: string, words: any, doIt: function(): Promise<any>, done: string}} o
 * @returns {Promise<any>} what doIt gave; null: it was called off
 */
export function change(o) {
  return new Promise((resolve) => {
    const input = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', required: true, name: 'name' });
    const refused = h('div', {});
    const go = h('button', { type: 'submit', class: 'danger', disabled: true }, o.title);
    const box = h('dialog', { class: 'change', 'aria-label': o.title },
      h('form', {
        method: 'dialog',
        onsubmit: async (event) => {
          event.preventDefault();
          if (input.value !== o.tenant) return;
          go.disabled = true;
          try {
            const made = await o.doIt();
            say(o.done);
            close(made ?? true);
          } catch (fault) {
            if (!(fault instanceof Problem)) throw fault;
            refused.replaceChildren(told(fault));
            go.disabled = false;
          }
        },
      },
        h('h2', {}, o.title),
        h('p', {}, o.words),
        h('label', { class: 'field' }, h('span', {}, 'Type the tenant’s name, ', id(o.tenant), ', to go on'), input),
        refused,
        h('div', { class: 'controls' }, go, button('Leave it', () => close(null)))));
    const close = (value) => {
      box.close();
      box.remove();
      resolve(value);
    };
    input.addEventListener('input', () => { go.disabled = input.value !== o.tenant; });
    box.addEventListener('cancel', (event) => { event.preventDefault(); close(null); });
    document.body.append(box);
    box.showModal();
    input.focus();
  });
}
