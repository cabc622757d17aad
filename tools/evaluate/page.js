/* Draws the report of `laplacectl evaluate` from the JSON document in its page. Every figure drawn stands in a table
 * beside its drawing; numbers read as the client prints them. Texts may come out of a log: they enter the page as text
 * nodes, never as markup. */
'use strict';

const ESTIMATORS = {replay: 'c1', ips: 'c2', snips: 'c3', clipped_ips: 'c4', dr: 'c5'};
const WHOLE = {ips_by_slot: 'c6', pseudo_inverse: 'c7'}; /* of all slots of a decision together */
const COURSES = {logged: 'c0', ips: 'c2', snips: 'c3', dr: 'c5'};
const POINT = ['estimate', 'lower', 'upper'];
const WIDTH = 720, LEFT = 190, RIGHT = 700, ROW = 24, PANEL = 130, TICKS = 6, LABEL = 40, DRAWN_ARMS = 40;
const FOREST_REACH = 0.25; /* an axis goes beyond the estimates by so much of their span at most, */
const COURSE_REACH = 1.5;
const LEAST_REACH = 1.5;   /* or by so much of the narrowest interval */
const PARTIAL = 'The table beside it has the numbers.';

/* A drawing carries its own colours, for light and for dark, so that it can be cut out of the page. */
const STYLE = `.lc{font:12px system-ui,sans-serif;max-width:100%;height:auto}.lc text{fill:#222;unicode-bidi:isolate}
.lc .end{text-anchor:end}.lc .mid{text-anchor:middle}.lc .bold{font-weight:600}.lc .axis{stroke:#888}
.lc .grid{stroke:#e2e2e2}.lc .zero{stroke:#888;stroke-dasharray:4 3}.lc .line{stroke-width:1.8;fill:none}
.lc .band{opacity:.22}.lc .c0{--c:#6b6b6b}.lc .c1{--c:#a3447f}.lc .c2{--c:#0067a5}.lc .c3{--c:#b04a00}
.lc .c4{--c:#6a4fb3}.lc .c5{--c:#00785a}.lc .c6{--c:#7a5c00}.lc .c7{--c:#00707d}.lc .line{stroke:var(--c)}.lc .fill,.lc .band{fill:var(--c)}
@media (prefers-color-scheme:dark){.lc text{fill:#e6e6e6}.lc .grid{stroke:#3a3a3a}.lc .c0{--c:#a8a8a8}
.lc .c1{--c:#e59bc6}.lc .c2{--c:#62b5ec}.lc .c3{--c:#f0a060}.lc .c4{--c:#b8a4f0}.lc .c5{--c:#4fc9a4}
.lc .c6{--c:#d4b24a}.lc .c7{--c:#5cc7d4}}`;

/* --- numbers ---------------------------------------------------------------------------------------------------- */

/* The first n decimal digits of |v| and the exponent of the first: ties go to the even digit, as in C. */
function rounded(v, n) {
    const [mantissa, exponent] = Math.abs(v).toExponential(60).split('e');
    const all = mantissa.replace('.', ''), rest = all.slice(n), half = '5'.padEnd(rest.length, '0');
    const head = Number(all.slice(0, n));
    const text = String(head + (rest > half || (rest === half && head % 2 === 1) ? 1 : 0));
    return [text.slice(0, n), Number(exponent) + text.length - n];
}

/* %.6g of C, or with n digits. */
function short(v, n = 6) {
    if (v === null)
        return '–';
    if (v === 0)
        return Object.is(v, -0) ? '-0' : '0';
    const [digits, e] = rounded(v, n), sign = v < 0 ? '-' : '';
    const trim = (text) => sign + text.replace(/\.?0*$/, '');
    if (e < -4 || e >= n)
        return `${trim(`${digits[0]}.${digits.slice(1)}`)}e${e < 0 ? '-' : '+'}${String(Math.abs(e)).padStart(2, '0')}`;
    return trim(e < 0 ? `0.${'0'.repeat(-e - 1)}${digits}` : `${digits.slice(0, e + 1)}.${digits.slice(e + 1)}`);
}

const tenths = (v) => (v % 1 === 0.25 ? v - 0.05 : v).toFixed(1); /* %.1f of C: the only tie that differs */
const thousands = (v) => String(v).replace(/\B(?=(\d{3})+$)/g, ',');

/* --- elements --------------------------------------------------------------------------------------------------- */

/* What is no character of XML and HTML becomes U+FFFD. */
const clean = (text) => String(text).replace(/[\0-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]/g, '\ufffd');

function cut(text) {
    const characters = Array.from(text);
    return characters.length > LABEL ? `${characters.slice(0, LABEL).join('')}…` : text;
}

/* A new element at the end of `parent`, an SVG element inside a drawing; content: text. */
function put(parent, name, attributes = {}, content = null) {
    const svg = 'http://www.w3.org/2000/svg', space = name === 'svg' ? svg : parent.namespaceURI;
    const element = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes))
        element.setAttribute(key, value);
    if (content !== null)
        element.append(clean(content));
    parent.append(element);
    return element;
}

/* A row is a list of cells, of which the first is its heading. */
function table(parent, id, caption, columns, rows) {
    const element = put(parent, 'table', {id});
    put(element, 'caption', {}, caption);
    const head = put(put(element, 'thead'), 'tr'), body = put(element, 'tbody');
    columns.forEach((name) => put(head, 'th', {scope: 'col'}, name));
    for (const [first, ...rest] of rows) {
        const row = put(body, 'tr');
        put(row, 'th', {scope: 'row'}, first);
        rest.forEach((cell, i) => {
            const isShort = i + 1 === rest.length && rest.length + 1 < columns.length;
            put(row, 'td', isShort ? {colspan: columns.length - rest.length} : {}, cell);
        });
    }
}

/* --- drawings --------------------------------------------------------------------------------------------------- */

const px = (v, digits = 2) => v.toFixed(digits);

function drawing(parent, id, height, title, about) {
    const svg = put(parent, 'svg', {id, class: 'lc', role: 'img', width: WIDTH, height,
        viewBox: `0 0 ${WIDTH} ${height}`, 'aria-labelledby': `${id}-t ${id}-d`});
    put(svg, 'title', {id: `${id}-t`}, title);
    put(svg, 'desc', {id: `${id}-d`}, `${about} ${PARTIAL}`);
    put(svg, 'style', {}, STYLE);
    return svg;
}

const line = (svg, kind, x1, y1, x2, y2) =>
    put(svg, 'line', {class: kind, x1: px(x1), y1: px(y1), x2: px(x2), y2: px(y2)});
const label = (svg, kind, x, y, text) => put(svg, 'text', {class: kind, x: px(x), y: px(y)}, cut(text));

function box(svg, kind, x, y, width, height, title = null) {
    const element = put(svg, 'rect', {
        class: kind, x: px(x), y: px(y), width: px(Math.max(width, 0)), height: px(Math.max(height, 0))});
    if (title !== null)
        put(element, 'title', {}, title);
}

/* An axis shows the values lo..hi at the pixels from..to; outside: at the end. isLog: by their logarithm. */
function place(axis, v) {
    const scale = axis.isLog ? Math.log10 : (x) => x;
    const share = (scale(v) - scale(axis.lo)) / (scale(axis.hi) - scale(axis.lo));
    return axis.from + (axis.to - axis.from) * Math.min(1, Math.max(0, share));
}

/* Round values inside, at most `max`: 1, 2 or 5 times a power of ten apart, or powers of ten. */
function ticks(axis, max) {
    const scale = axis.isLog ? Math.log10 : (x) => x, lo = scale(axis.lo), hi = scale(axis.hi);
    const rough = (hi - lo) / (max - 1), unit = 10 ** Math.floor(Math.log10(rough));
    const round = unit * [1, 2, 5, 10].find((k) => rough <= k * unit || k === 10);
    const step = axis.isLog ? Math.max(1, Math.ceil(rough)) : round;
    const found = [];
    for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + 1e-9 * step && found.length < max; k++)
        found.push(axis.isLog ? 10 ** (k * step) : k * step + 0);
    return found;
}

/* An axis that shows points {estimate, lower, upper}, and of their intervals as much as does not dwarf them. */
function axisOf(points, reach, from, to) {
    const told = points.filter((p) => p.estimate !== null);
    const bounded = told.filter((p) => p.lower !== null && p.upper !== null);
    const least = Math.min(...told.map((p) => p.estimate)), most = Math.max(...told.map((p) => p.estimate));
    if (told.length === 0)
        return {lo: 0, hi: 1, from, to};
    const widths = bounded.map((p) => p.upper - p.lower).filter((width) => width > 0);
    const beyond = Math.max(reach * (most - least), widths.length > 0 ? LEAST_REACH * Math.min(...widths) : 0);
    const lo = Math.max(Math.min(least, ...bounded.map((p) => p.lower)), least - beyond);
    const hi = Math.min(Math.max(most, ...bounded.map((p) => p.upper)), most + beyond);
    const room = hi > lo ? 0.04 * (hi - lo) : Math.max(0.5 * Math.abs(hi), 0.5);
    return {lo: lo - (lo === 0 ? 0 : room), hi: hi + room, from, to};
}

function labelX(svg, axis, top, bottom) {
    for (const tick of ticks(axis, TICKS)) {
        line(svg, 'grid', place(axis, tick), top, place(axis, tick), bottom);
        label(svg, 'mid', place(axis, tick), bottom + 16, short(tick));
    }
    line(svg, 'axis', axis.from, bottom, axis.to, bottom);
}

function labelY(svg, axis, left, right) {
    for (const tick of ticks(axis, 4)) {
        line(svg, 'grid', left, place(axis, tick), right, place(axis, tick));
        label(svg, 'end', left - 6, place(axis, tick) + 4, short(tick));
    }
    line(svg, 'axis', left, axis.from, left, axis.to);
}

/* A bar with a stroke at either end, or an arrow where the axis ends before it. */
function interval(svg, axis, kind, row, y) {
    const x1 = place(axis, row.lower), x2 = place(axis, row.upper);
    line(svg, kind, x1, y, x2, y);
    if (row.lower < axis.lo)
        label(svg, 'end', x1 - 1, y + 4, '←');
    else
        line(svg, kind, x1, y - 4, x1, y + 4);
    if (row.upper > axis.hi)
        label(svg, '', x2 + 1, y + 4, '→');
    else
        line(svg, kind, x2, y - 4, x2, y + 4);
}

/* Estimates side by side over a line at `reference`. A row without an estimate is a heading, or says why in `note`. */
function forest(parent, id, title, rows, reference) {
    const bottom = 12 + ROW * rows.length;
    const axis = axisOf([...rows, {estimate: reference, lower: null, upper: null}], FOREST_REACH, LEFT, RIGHT - 12);
    const svg = drawing(parent, id, bottom + 28, title,
        'One line for each estimator: the dot is the estimate, the bar its interval; an arrow where it is cut.');
    labelX(svg, axis, 8, bottom);
    if (reference !== null)
        line(svg, 'zero', place(axis, reference), 8, place(axis, reference), bottom);
    rows.forEach((row, i) => {
        const y = 8 + ROW * (i + 0.5), isHeading = row.colour === undefined;
        label(svg, isHeading ? 'bold' : 'end', isHeading ? 8 : LEFT - 12, y + 4, row.label);
        if (row.note !== undefined)
            label(svg, '', LEFT, y + 4, row.note);
        if (row.estimate === null)
            return;
        if (row.lower !== null)
            interval(svg, axis, `line ${row.colour}`, row, y);
        const x = px(place(axis, row.estimate));
        const dot = put(svg, 'circle', {class: `fill ${row.colour}`, cx: x, cy: px(y), r: 4});
        const bounds = row.lower !== null ? ` [${short(row.lower)}, ${short(row.upper)}]` : '';
        put(dot, 'title', {}, `${row.label}: ${short(row.estimate)}${bounds}`);
    });
}

/* --- estimates and differences ---------------------------------------------------------------------------------- */

const NO_POINT = {estimate: null, lower: null, upper: null};

function rowOf(estimate, name, colour) {
    return {...('refused' in estimate ? {...NO_POINT, note: 'refused'} : estimate), label: name, colour};
}

function cells(policy, name, estimate) {
    if ('refused' in estimate)
        return [policy, name, 'refused', estimate.refused];
    const kind = estimate.interval === 'bootstrap' ? 'bootstrap' : 'Bernstein';
    return [policy, name, ...POINT.map((key) => short(estimate[key])), kind];
}

const hasSlots = (policy) => policy.most_slots > 1; /* else the estimators of whole decisions are ips */
const estimatorsOf = (policy) => (hasSlots(policy) ? {...ESTIMATORS, ...WHOLE} : ESTIMATORS);

/* One drawing and its table: `logged` names what the log earned. */
function putForest(page, ids, title, caption, policies, logged, estimators) {
    const earned = policies[0][logged], names = Object.entries(estimators);
    const rows = policies.flatMap((p) => [
        {...NO_POINT, label: p.name}, ...names.map(([name, colour]) => rowOf(p[name], name, colour))]);
    forest(page, ids[0], title, [rowOf(earned, 'logging policy', 'c0'), ...rows], earned.estimate);
    table(page, ids[1], caption, ['policy', 'estimator', ...POINT, 'interval'],
        [cells('logging policy', logged, earned),
            ...policies.flatMap((p) => names.map(([name]) => cells(p.name, name, p[name])))]);
}

function putEstimates(page, policies) {
    put(page, 'h2', {}, 'Estimates');
    putForest(page, ['forest', 'estimates'], 'Estimates with their intervals', 'Average reward of a decision', policies,
        'logged', ESTIMATORS);
    if (!policies.some(hasSlots))
        return;
    put(page, 'h3', {}, 'Whole decisions');
    put(page, 'p', {}, `Decisions of this log have up to ${policies[0].most_slots} slots. What stands above is of the ` +
        'first; here all slots of a decision are added up.');
    putForest(page, ['whole-forest', 'whole'], 'Estimates of all slots together',
        'Average reward of a decision, all of its slots together', policies, 'logged_total', WHOLE);
}

/* Over what the log earned, and of each policy over the first. */
function putDifferences(page, policies, differences) {
    const pairs = [...policies.map((p) => [`${p.name} less logged`, p.gain]),
        ...differences.map((d) => [`${d.policy} less ${d.against}`, d])];
    const all = Object.entries(estimatorsOf(policies[0]));
    const told = pairs.map(([pair, values]) => [pair, all.filter(([name]) => name in values)
        .map(([name, colour]) => rowOf(values[name], name, colour))]);
    if (told.every(([, rows]) => rows.length === 0))
        return;
    put(page, 'h2', {}, 'Differences');
    put(page, 'p', {}, 'On the same events: each bootstrap draws the same ones for both, so that what the log has in ' +
        'common for them cancels.');
    forest(page, 'differences-plot', 'Paired differences with their intervals',
        told.flatMap(([pair, rows]) => [{...NO_POINT, label: pair}, ...rows]), 0);
    table(page, 'differences', 'Difference of the average reward', ['pair', 'estimator', 'difference', 'lower', 'upper'],
        told.flatMap(([pair, rows]) => rows.map((row) => [pair, row.label, ...POINT.map((key) => short(row[key]))])));
}

/* --- one policy ------------------------------------------------------------------------------------------------- */

/* What the numbers rest on, in words. */
function putDiagnostics(page, policy) {
    let text = `${thousands(policy.n)} events of ${thousands(policy.arms)} arms. `;
    if ('shares' in policy)
        text += `The effective sample size is ${tenths(policy.ess)}; the mean weight is ` +
            `${short(policy.weights.mean, 4)} (it should be 1), the largest ${short(policy.weights.max, 4)}. The replay ` +
            `accepted ${thousands(policy.accepted)} events. ${short(policy.unsupported, 3)} of the policy's mass is on ` +
            `arms that the log never shows. Propensities are between ${short(policy.min_propensity, 4)} and ` +
            `${short(policy.max_propensity, 4)}.`;
    put(page, 'p', {}, text);
    for (const name of Object.keys(estimatorsOf(policy)))
        if ('refused' in policy[name])
            put(page, 'p', {class: 'warning'}, `${name} is refused: ${policy[name].refused}`);
    policy.warnings.forEach((warning) => put(page, 'p', {class: 'warning'}, warning));
    for (const [reason, n] of Object.entries(policy.skipped))
        if (reason !== 'faulty')
            put(page, 'p', {}, `Passed over: ${thousands(n)} ${reason}`);
}

/* The stretches of the log with the points of a course there. */
function stretches(series, name) {
    return series.from.map((from, i) => ({from, to: from + series.events[i],
        ...(series[name] === null ? NO_POINT : Object.fromEntries(POINT.map((key) => [key, series[name][key][i]])))}));
}

/* Each stretch: its band and its value, joined to the value before it. */
function putCourse(svg, points, colour, x, y) {
    points.forEach((p, i) => {
        const x1 = place(x, p.from), x2 = place(x, p.to);
        if (p.estimate === null)
            return;
        if (p.lower !== null)
            box(svg, `band ${colour}`, x1, place(y, p.upper), x2 - x1, place(y, p.lower) - place(y, p.upper),
                `events ${p.from + 1} to ${p.to}: ${short(p.estimate)}`);
        line(svg, `line ${colour}`, x1, place(y, p.estimate), x2, place(y, p.estimate));
        if (i > 0 && points[i - 1].estimate !== null)
            line(svg, `line ${colour}`, x1, place(y, points[i - 1].estimate), x1, place(y, p.estimate));
    });
}

/* One panel an estimator, each over the logging policy's course; all of one scale. */
function drawCourses(page, id, policy) {
    const series = policy.series, x = {lo: 0, hi: policy.n, from: 70, to: RIGHT};
    const names = Object.keys(COURSES).filter((name) => series[name] !== null);
    const panels = names.filter((name) => name !== 'logged');
    const all = names.flatMap((name) => stretches(series, name));
    const svg = drawing(page, id, 34 + (PANEL + 26) * panels.length, 'Reward over the log',
        'One panel for each estimator: the reward in stretches of the log, with bands of its intervals, over that of ' +
        'the logging policy in grey.');
    panels.forEach((name, i) => {
        const top = i * (PANEL + 26), y = axisOf(all, COURSE_REACH, top + 24 + PANEL, top + 24);
        label(svg, 'bold', 70, top + 16, name);
        labelY(svg, y, 70, RIGHT);
        putCourse(svg, stretches(series, 'logged'), 'c0', x, y);
        putCourse(svg, stretches(series, name), COURSES[name], x, y);
    });
    const bottom = panels.length * (PANEL + 26);
    labelX(svg, x, bottom - 2, bottom - 2);
    label(svg, 'end', RIGHT, bottom + 28, 'events');
}

function putCourses(page, number, policy) {
    put(page, 'h3', {}, 'Reward over the log');
    put(page, 'p', {}, 'In stretches of the log; no band where nothing varied in one.');
    if (policy.series.ips !== null || policy.series.dr !== null)
        drawCourses(page, `courses-${number}`, policy);
    const names = Object.keys(COURSES), courses = names.map((name) => stretches(policy.series, name));
    const rows = courses[0].map(({from, to}, i) =>
        [`${from + 1}–${to}`, ...courses.flatMap((c) => POINT.map((key) => short(c[i][key])))]);
    table(page, `course-${number}`, 'Reward in stretches of the log',
        ['events', ...names.flatMap((name) => [name, 'lower', 'upper'])], rows);
}

/* A histogram by the logarithm of the weight; those that are 0 stand to the left of it. */
function putWeights(page, number, policy) {
    const {zero, edges, counts, mass} = policy.weights.histogram, n = policy.n, sum = n * policy.weights.mean;
    const bins = counts.map((count, i) => ({from: edges[i], to: edges[i + 1], count, mass: mass[i], events: count / n,
        share: sum > 0 ? mass[i] / sum : 0}));
    const most = Math.max(zero / n, ...bins.map((bin) => Math.max(bin.events, bin.share)));
    const x = {lo: edges[0] ?? 10 ** 4.75, hi: edges[edges.length - 1] ?? 1e5, from: 130, to: RIGHT, isLog: true};
    const y = {lo: 0, hi: most, from: 200, to: 30};
    put(page, 'h3', {}, 'Importance weights');
    const svg = drawing(page, `weights-plot-${number}`, 240,
        `Importance weights: effective sample size ${tenths(policy.ess)} of ${n}`,
        'A histogram by the logarithm of the weight: the share of the events in each bin, and beside it the share of ' +
        'the whole weight that these events have.');
    label(svg, 'bold', 70, 16, 'share of events');
    box(svg, 'fill c2', 56, 7, 10, 10);
    label(svg, 'bold', 206, 16, 'share of weight');
    box(svg, 'fill c3', 192, 7, 10, 10);
    labelY(svg, y, 60, RIGHT);
    const bar = (at, width, events, share, what) => {
        const title = `${what}: ${short(100 * events, 3)} % of the events, ${short(100 * share, 3)} % of the weight`;
        box(svg, 'fill c2', at + 1, place(y, events), width / 2 - 1, y.from - place(y, events), title);
        box(svg, 'fill c3', at + width / 2, place(y, share), width / 2 - 1, y.from - place(y, share), title);
    };
    bar(70, 40, zero / n, 0, 'weight 0');
    label(svg, 'mid', 90, 216, '0');
    for (const bin of bins)
        bar(place(x, bin.from), place(x, bin.to) - place(x, bin.from), bin.events, bin.share,
            `weights ${short(bin.from, 3)} to ${short(bin.to, 3)}`);
    labelX(svg, x, 200, 200);
    label(svg, 'end', RIGHT, 234, 'weight');
    const rows = bins.filter((bin) => bin.count > 0).map((bin) =>
        [short(bin.from), short(bin.to), bin.count, short(bin.mass)]);
    table(page, `weights-${number}`, 'Importance weights', ['from', 'to', 'events', 'sum of weights'],
        [['0', '0', zero, '0'], ...rows]);
}

function putShares(page, number, {arms, others}) {
    const drawn = arms.slice(0, DRAWN_ARMS), bottom = 26 + 18 * drawn.length;
    const most = Math.max(0, ...drawn.map((a) => Math.max(a.logged, a.target)));
    const x = {lo: 0, hi: most > 0 ? 1.04 * most : 1, from: LEFT, to: RIGHT - 12};
    put(page, 'h3', {}, 'Shares of the arms');
    const svg = drawing(page, `shares-plot-${number}`, bottom + 28, 'Shares of the arms',
        'Two bars for each arm: how often the log shows it, and how often the policy would have shown it.');
    label(svg, 'bold', LEFT + 16, 14, 'logged');
    box(svg, 'fill c0', LEFT, 5, 10, 10);
    label(svg, 'bold', LEFT + 96, 14, 'target');
    box(svg, 'fill c2', LEFT + 80, 5, 10, 10);
    labelX(svg, x, 22, bottom);
    drawn.forEach((a, i) => {
        const y = 26 + 18 * i;
        label(svg, 'end', LEFT - 8, y + 11, a.arm);
        box(svg, 'fill c0', LEFT, y, place(x, a.logged) - LEFT, 7, a.arm);
        box(svg, 'fill c2', LEFT, y + 7, place(x, a.target) - LEFT, 7, a.arm);
    });
    table(page, `shares-${number}`, 'Shares of the arms', ['arm', 'logged', 'target'],
        arms.map((a) => [a.arm, short(a.logged), short(a.target)]));
    if (others.arms > 0)
        put(page, 'p', {}, `and ${thousands(others.arms)} arms more.`);
}

/* --- the page --------------------------------------------------------------------------------------------------- */

function putOrigin(page, report, text) {
    put(page, 'h2', {}, 'How it was made');
    table(page, 'files', 'Files', ['role', 'name', 'bytes', 'SHA-256'],
        report.files.map((file) => [file.role, file.name, file.bytes, file.sha256]));
    table(page, 'parameters', 'Parameters of laplacectl evaluate', ['parameter', 'value'],
        Object.entries(report.parameters).map(([name, v]) => [name, typeof v === 'string' ? v : short(v)]));
    const details = put(page, 'details');
    put(details, 'summary', {}, 'The same as JSON');
    put(details, 'pre', {id: 'json'}, text);
}

function draw(page, text) {
    const report = JSON.parse(text), policies = report.policies ?? [report];
    const title = `Offline evaluation on ${report.files[0].name}`;
    document.title = clean(title);
    put(page, 'h1', {}, title);
    put(page, 'p', {}, 'What policies would have earned, estimated from the log of another one. Intervals are of ' +
        `${short(100 * policies[0].level)} %. What the log cannot support is refused.`);
    putEstimates(page, policies);
    putDifferences(page, policies, report.differences ?? []);
    policies.forEach((policy, number) => {
        put(page, 'h2', {}, policy.name);
        putDiagnostics(page, policy);
        if (!('shares' in policy))
            return;
        putCourses(page, number, policy);
        putWeights(page, number, policy);
        putShares(page, number, policy.shares);
    });
    putOrigin(page, report, text);
}

draw(document.getElementById('page'), document.getElementById('report').textContent);
