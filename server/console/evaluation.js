/* What would another policy have earned? Asked of the server as a job over its log, where it has such jobs. */
import { h, id } from './dom.js';
import { get, of, Problem } from './api.js';

/** Whether there is such a route: a job that is not there is another kind of 404 than a route that is not. */
async function hasEvaluations(page) {
  try {
    await get(of(page.tenant, 'evaluations', 'none'), { signal: page.signal });
  } catch (fault) {
    if (!(fault instanceof Problem) || ![400, 404].includes(fault.status)) throw fault;
    return fault.type !== '/problems/no-route';
  }
  return true;
}

export async function evaluation(page) {
  const title = h('h1', {}, 'Evaluation of policies on the log of ', id(page.tenant));
  if (!(await hasEvaluations(page)))
    return h('div', {}, title, h('p', { id: 'none' }, 'This server has no evaluations. On the command line:'),
      h('pre', { tabindex: 0, 'aria-label': 'Commands' }, h('code', {}, `laplacectl events --tenant ${page.tenant} > log.ndjson\nlaplacectl evaluate --format ndjson --policy logged --policy uniform --html report.html log.ndjson`)));
  return h('div', {}, title);
}
