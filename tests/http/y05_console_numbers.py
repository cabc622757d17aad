"""The console's numbers beside those of the API, screen by screen: what y00_console.py leaves."""
import collections
import json
import math
import random
import re
import time

import pytest

from console_page import (PICTURES, assert_shows, browser, count, needs_chromium, num, page, percent, seed_page, seed_town, seeded, show, size, span, wilson)  # noqa: F401
from folds import hold_a_fold, until
from harness import NDJSON, Client, tenant_path

pytestmark = needs_chromium
# Answers of /metrics as the page got them, each with its moment; `window.more` is what a test adds to them.
LISTEN = """window.looks = []; window.more = ''; { const own = window.fetch; window.fetch = async (path, options) => {
    const answer = await own(path, options);
    if (String(path) !== '/metrics') return answer;
    const text = await answer.text() + window.more;
    window.looks.push([performance.now(), text]);
    return new Response(text, { status: answer.status });
}; }"""


def stamp(at):
    return at[:19].replace("T", " ")


def mean_of(n, total, squares):
    """Mean with its interval: Wilson's where all are 0 or 1, else by the normal approximation."""
    if n == 0:
        return None, None, None
    mean = total / n
    if abs(total - squares) <= 1e-9 * max(1, abs(total)):
        return mean, *wilson(mean, n)
    if n < 2:
        return mean, None, None
    half = 1.959963984540054 * math.sqrt(max(0, squares - n * mean * mean) / (n - 1) / n)
    return mean, mean - half, mean + half


def open_all(page):
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")


# --- the overview ---------------------------------------------------------------------------------------------------------------


def samples(text):
    """Name, labels and value of each line of a text of metrics."""
    return [(m[1], dict(re.findall(r'(\w+)="([^"]*)"', m[2] or "")), float(m[3])) for m in re.finditer(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M)]


def asked(text):
    """Requests for decisions and rewards, and how many decisions were answered within each bound."""
    requests, within = 0, collections.Counter()
    for name, labels, value in samples(text):
        if name == "laplaced_http_requests_total" and labels["route"] in ("/select", "/reward", "/observe", "/activate"):
            requests += value
        if name == "laplaced_http_request_duration_seconds_bucket" and labels["route"] == "/select":
            within[float(labels["le"])] += value
    return requests, within


def test_the_pulse_is_that_of_two_looks_at_the_metrics(seeded, page):
    page.send("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN})
    show(page, seeded.server)
    page.wait("window.looks.length > 0")
    for k in range(40):
        seeded.select(f"p{k % 5}", decision=f"pulse-{k}", tenant="town")
    rate, slowest, looks = page.wait("document.querySelector('[data-of=slowest]') && [...['rate', 'slowest'].map(n => document.querySelector(`[data-of=${n}]`).innerText), window.looks]")
    told = []
    for (t0, first), (t1, second) in zip(looks, looks[1:]):
        (n0, b0), (n1, b1) = asked(first), asked(second)
        counts = sorted((le, b1[le] - b0[le]) for le in b1)
        told.append((1000 * (n1 - n0) / (t1 - t0), next((le for le, n in counts if counts[-1][1] > 0 and n >= 0.99 * counts[-1][1]), None)))
    assert any(abs(float(rate) - r) <= 0.02 * r and s is not None and slowest == f"{num(1000 * s)} ms" for r, s in told), (rate, slowest, told)


def test_alarms_say_what_metrics_and_statistics_say(boot, page):
    server = boot("--max-body", "100000")
    client = Client(server)
    client.put_tenant("leaky", algorithm="ts", default_reward=None, reward_window_s=1)
    client.put_arms("leaky", ["a", "b"])
    for k in range(8):
        client.select("ann", decision=f"l{k}", tenant="leaky")
    for k in range(3):
        client.reward(f"l{k}", 1, tenant="leaky")
    client.call("POST", "/reward", {"decision": "never-made", "reward": 1}, tenant="leaky", expect=(404, 409, 410))
    deadline = time.monotonic() + 20
    while client.stats("leaky")["pending"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client.call("POST", "/reward", {"decision": "l7", "reward": 1}, tenant="leaky", expect=(200, 409, 410))
    seed_town(client, "sound", rounds=6)
    server.fill_disk()
    for _ in range(2):
        client.call("POST", "/select", {"user": "ann", "decision": "no-room"}, tenant="leaky", expect=503)
    server.fill_disk(False)
    page.send("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN + "window.more = 'laplaced_model_clamps{tenant=\"sound\"} 12\\n';"})
    show(page, server)
    page.wait("document.querySelector('#alarms li')?.innerText.startsWith('the server')")  # the look at the metrics comes second
    stats = client.stats("leaky")
    closed = stats["decisions"] - stats["pending"]
    refused = sum(v for n, labels, v in samples(client.call("GET", "/metrics").text) if n == "laplaced_http_requests_total" and labels["code"] == "503")
    assert (stats["unknown"], stats["late"], closed, refused) == (1, 1, 8, 2)
    got = page.run("[...document.querySelectorAll('#alarms li')].map(l => l.innerText)")
    assert got == ["the server: 2 requests were answered 503 since it began to run, 0 of them since this page was opened",
                   f"leaky: {percent(5 / 8)} of the decisions whose window has closed have no reward", "leaky: 1 rewards found no decision", "leaky: 1 rewards came after their window",
                   "sound: 12 numbers of the model were lifted to their floor: it is losing digits"]
    server.fill_disk()
    client.call("POST", "/select", {"user": "ann", "decision": "no-room"}, tenant="leaky", expect=503)
    server.fill_disk(False)
    page.wait("document.querySelector('#alarms li').innerText === 'the server: 3 requests were answered 503 since it began to run, 1 of them since this page was opened'", 15)
    page.picture(PICTURES / "overview-alarms.png")


def test_small_curves_have_their_numbers(seeded, page):
    show(page, seeded.server)
    page.wait("document.getElementById('sparks')")
    open_all(page)
    rows = collections.defaultdict(list)
    for r in page.cells("sparks"):
        rows[r["tenant"]].append(r)
    for tenant in ("town", "page"):
        series = [r for r in seeded.call("GET", f"/tenants/{tenant}/series", query={"step": "minute"}).json["rows"] if r["rewards"]]
        want = [{"tenant": tenant, "from": stamp(r["at"]), "rewards": count(r["rewards"]), "mean reward": num(r["sum"] / r["rewards"]),
                 "95 %": span(*mean_of(r["rewards"], r["sum"], r["square_sum"])[1:])} for r in series]
        assert want and rows[tenant] == want
    drawn = page.run("Object.fromEntries([...document.querySelectorAll('#tenants tbody tr')].map(r => [r.cells[0].innerText, r.querySelectorAll('polyline.line').length]))")
    assert {t for t, n in drawn.items() if n} == {t for t in rows if len(rows[t]) > 1}


# --- rewards --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["arm", "route", "version"])
def test_shares_and_courses_are_those_of_the_series(seeded, page, by):
    show(page, seeded.server, "t", "page", "traffic", "3", by)
    open_all(page)
    called = lambda r: f"version {r[by]}" if by == "version" else r[by]  # noqa: E731
    series = seeded.call("GET", "/tenants/page/series", query={"step": "minute", "by": by}).json["rows"]
    rows = page.cells("parts")
    want = [{"minute": stamp(r["at"]), by: called(r), "decisions": count(r["decisions"]), "rewards": count(r["rewards"]),
             "mean reward": num(r["sum"] / r["rewards"]) if r["rewards"] else "–", "95 %": span(*mean_of(r["rewards"], r["sum"], r["square_sum"])[1:])} for r in series]
    assert rows == want and len(want) > 1
    # What the columns are as high as: the share of each among the decisions of its minute.
    minutes = collections.defaultdict(dict)
    for r in series:
        minutes[r["at"]][called(r)] = r["decisions"]
    shares = sorted(n / sum(of.values()) for of in minutes.values() for n in of.values())
    drawn = page.run("""(() => { const p = [...document.querySelectorAll('.plot')].find(p => p.getAttribute('aria-label').startsWith('Share of decisions'));
        return [...p.querySelectorAll('rect.fill')].map(r => Number(r.getAttribute('height'))); })()""")
    whole = sum(drawn) / len(minutes)
    assert len(drawn) == len(shares) and all(abs(a / whole - b) < 1e-6 for a, b in zip(sorted(drawn), shares))
    # Courses: neighbouring rows of one name together, twelve parts over the picture at most.
    ms = lambda r: time.mktime(time.strptime(r["at"][:16], "%Y-%m-%dT%H:%M"))  # noqa: E731
    x0, x1 = min(map(ms, series)) - 60, max(map(ms, series)) + 60
    pools = collections.defaultdict(list)
    for r in series:
        pools[called(r), math.floor((ms(r) - x0) / ((x1 - x0) / 12))].append(r)
    sums = lambda of, k: sum(r[k] for r in of)  # noqa: E731
    want = {(name, stamp(of[0]["at"])): (stamp(of[-1]["at"]), count(sums(of, "rewards")), mean_of(sums(of, "rewards"), sums(of, "sum"), sums(of, "square_sum")))
            for (name, _), of in pools.items() if sums(of, "rewards")}
    got = {(r[by], r["from minute"]): r for r in page.cells("courses")}
    assert got.keys() == want.keys()
    for key, (until, rewards, (mean, low, high)) in want.items():
        assert {k: got[key][k] for k in ("to minute", "rewards", "mean", "95 %")} == {"to minute": until, "rewards": rewards, "mean": num(mean), "95 %": span(low, high)}
    assert page.run("document.querySelectorAll('#panels .panel').length") == len({name for name, _ in want})
    assert page.run("document.querySelectorAll('#panels svg .dot').length") == len(want)


METRICS = [{"name": "loyal", "role": "guardrail", "harm": 0.25}, {"name": "speed", "role": "guardrail", "harm": 0.5}, {"name": "clicked"}]


@pytest.fixture(scope="module")
def measured(server):
    """An experiment of two arms with three metrics and a holdout, all of whose windows have closed."""
    api, rng, name = Client(server), random.Random(4), "measured"
    api.put_tenant(name, algorithm="random", experiment={"difference": 0.1, "baseline": "a"}, metrics=METRICS, reward_window_s=2, default_reward=None,
                   routing={"holdout": {"share": 0.2, "baseline": {"arm": "a"}}})
    api.put_arms(name, ["a", "b"])
    for i in range(260):
        d = api.select(f"u{i}", tenant=name)
        arm, decision = d["arm"], d["decision"]
        api.call("POST", "/reward", [{"decision": decision, "metric": m, "reward": v} for m, v in (("loyal", float(arm == "a")), ("speed", 0.5), ("clicked", float(arm == "b")))]
                 + [{"decision": decision, "reward": int(rng.random() < 0.4)}], tenant=name)
    deadline = time.monotonic() + 60
    while api.call("GET", f"/tenants/{name}/experiment").json["experiment"]["decisions"]["waiting"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return api


VERDICTS = {"go_on": "go on", "no_difference": "no difference"}


def test_metrics_of_an_experiment_stand_on_the_screen(measured, page):
    show(page, measured.server, "t", "measured", "traffic")
    e = measured.call("GET", "/tenants/measured/experiment").json["experiment"]
    rows = {(r["metric"], r["arm"]): r for r in page.cells("metrics")}
    assert {m["metric"]: m["differences"][0]["verdict"] for m in e["metrics"]} == {"loyal": "harmed", "speed": "holds", "clicked": "changed"}
    for m in e["metrics"]:
        against = {d["arm"]: d for d in m["differences"]}
        for a in m["arms"]:
            d = against.get(a["arm"], {})
            assert rows.pop((m["metric"], a["arm"])) == {
                "metric": m["metric"], "arm": a["arm"], "verdict": VERDICTS.get(d["verdict"], d["verdict"]) if d else "baseline", "difference": num(d.get("estimate")),
                "holds always": span(d.get("low"), d.get("high")), "": "" if d else "–", "lift": percent(d.get("lift")), "mean": num(a["policy"]["mean"]),
                "holds always ": span(a["policy"]["low"], a["policy"]["high"]), "decisions": count(a["policy"]["decisions"]), "role": m["role"], "harm": num(m["harm"])}
    assert rows == {}
    said = page.run("[...document.querySelectorAll('#metric-sentences li')].map(l => [l.innerText, l.className])")
    assert ["loyal, b: stop: b harms loyal by more than 0.25", "worse"] in said and ["speed, b: b does not harm speed by more than 0.5", "better"] in said
    assert ["clicked, b: b changes clicked: it is higher", ""] in said
    assert page.text("#changes") == f"Of {e['changes']['tests']} differences that no guardrail watches, {e['changes']['found']} {'is' if e['changes']['found'] == 1 else 'are'} told as {'a change' if e['changes']['found'] == 1 else 'changes'}."
    policies = {r["of"]: r for r in page.cells("against-holdout")}
    for name, p in [("reward", e["policy"]), *((m["metric"], m["policy"]) for m in e["metrics"])]:
        assert {k: v for k, v in policies.pop(name).items() if k} == {
            "of": name, "verdict": VERDICTS.get(p["verdict"], p["verdict"]), "difference": num(p["estimate"]), "holds always": span(p["low"], p["high"]),
            "lift": percent(p["lift"]), "its interval": span(p.get("lift_lower"), p.get("lift_upper"), percent), "decisions": count(p["decisions"])}
    assert policies == {}
    assert_shows(page, "measured", {m["metric"]: m for m in measured.stats("measured")["metrics"]}, {
        "metric": lambda m: m["metric"], "values": lambda m: count(m["values"]), "mean": lambda m: num(m["mean"])})
    csv = page.run("""(async () => { const made = []; const own = URL.createObjectURL; URL.createObjectURL = (blob) => { made.push(blob); return own(blob); };
        for (const name of ['metrics', 'against-holdout', 'measured']) document.getElementById(name).closest('.tabled').querySelector('button').click();
        return Promise.all(made.map(b => b.text())); })()""")
    assert csv[0].split("\r\n")[0] == "metric,arm,verdict,difference,holds always low,holds always high,lift,mean,holds always  low,holds always  high,decisions,role,harm"
    assert [len(text.strip().split("\r\n")) for text in csv] == [1 + 6, 1 + 4, 1 + 3]
    [line] = [text.split(",") for text in csv[0].split("\r\n") if text.startswith("loyal,b,")]
    assert line[2] == "harmed" and float(line[3]) == e["metrics"][0]["differences"][0]["estimate"]
    page.picture(PICTURES / "rewards-metrics.png")


def test_metrics_over_time_are_those_of_the_series(measured, page):
    show(page, measured.server, "t", "measured", "traffic", "auto", "metric")
    open_all(page)
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for r in measured.call("GET", "/tenants/measured/series", query={"step": "minute", "by": "metric"}).json["rows"]:
        for i, k in enumerate(("rewards", "sum", "square_sum")):
            sums[r["metric"] or "reward"][i] += r[k]
    got = collections.Counter()
    for r in page.cells("courses"):
        got[r["metric"]] += int(r["values"].replace(",", ""))
    assert got == {name: n for name, (n, *_) in sums.items()} and {"loyal", "speed", "clicked"} <= got.keys()
    if len(page.cells("courses")) == len(sums):  # all of it within one part: the means are those of the sums
        assert {r["metric"]: (r["mean"], r["95 %"]) for r in page.cells("courses")} == {name: (num(mean_of(*of)[0]), span(*mean_of(*of)[1:])) for name, of in sums.items()}
    page.picture(PICTURES / "rewards-by-metric.png")


# --- a decision -----------------------------------------------------------------------------------------------------------------


def test_a_tenant_without_a_catalogue_is_asked_about_the_arms_it_has_shown(server, page):
    client = Client(server)
    client.put_tenant("loose", algorithm="ts")
    odd = 'a "quoted", arm'
    for k in range(12):
        client.select(f"u{k % 3}", candidates=[odd, "b"] if k < 8 else ["b", "c"], decision=f"loose-{k}", tenant="loose")
    show(page, server, "t", "loose", "decision")
    shown = [a["arm"] for a in sorted(client.stats("loose")["arms"], key=lambda a: -a["decisions"])]
    assert page.run("document.getElementById('ask').elements.candidates.value.split('\\n')") == shown and set(shown) == {odd, "b", "c"}
    assert not page.run("document.getElementById('ask').elements.context")
    page.run("""(() => { const f = document.getElementById('ask').elements; f.user.value = 'u1'; f.candidates.value = 'b\\nnever seen\\n' + f.candidates.value.split('\\n').find(a => a.includes('quoted')); document.getElementById('ask').requestSubmit(); })()""")
    page.wait("document.getElementById('now')")
    told = client.select("u1", candidates=["b", "never seen", odd], explain=True, dry_run=True, tenant="loose")
    assert {r["arm"].split(" ←")[0]: (r["mean"], r["sd"]) for r in page.cells("candidates")} == {r["arm"]: (num(r["mean"]), num(r["sd"])) for r in told["ranking"]}
    show(page, server, "t", "loose", "decision", "now", "u2")  # as a link in a table asks it
    page.wait("document.getElementById('now')")
    assert {r["arm"].split(" ←")[0] for r in page.cells("candidates")} == set(shown)


def test_the_named_features_that_moved_a_mean_are_those_of_the_posterior(server, page):
    client, rng = Client(server), random.Random(1)
    client.put_tenant("named", algorithm="lin-ucb", features={"mapping": "names-1", "dim": 32})
    client.call("PUT", "/tenants/named/arms", {"arms": [{"id": a, "features": {"kind": a}} for a in ("tea", "rum")]})
    for k in range(60):
        words = [w for w in ("hot", "late", "new") if rng.random() < 0.5]
        client.call("POST", "/observe", {"user": "u", "context": {"words": words}, "arm": {"id": ("tea", "rum")[k % 2], "features": {"kind": ("tea", "rum")[k % 2]}},
                                         "reward": 1 if "hot" in words else 0}, tenant="named")
    context = {"words": ["hot", "new"], "<b>": True}
    show(page, server, "t", "named", "decision")
    page.run(f"""(() => {{ const f = document.getElementById('ask').elements; f.user.value = 'u'; f.context.value = {json.dumps(json.dumps(context))}; document.getElementById('ask').requestSubmit(); }})()""")
    for arm in ("tea", "rum"):
        page.wait("document.querySelector('#teachers select')")
        page.run(f"(() => {{ const s = document.querySelector('#teachers select'); s.value = {json.dumps(arm)}; s.dispatchEvent(new Event('change')); }})()")
        page.wait(f"document.querySelector('#features bdi')?.innerText === {json.dumps(arm)}")
        told = client.call("POST", "/tenants/named/posterior", {"users": ["u"], "arms": [arm], "context": context, "features": 20}).json["features"]
        assert [{k: r[k] for k in ("of", "feature", "change")} for r in page.cells("moved")] == [{"of": c["of"], "feature": c["feature"], "change": num(c["change"])} for c in told["changes"]]
        assert num(told["mean"]) in page.text("#features") and len(told["changes"]) == 3
    page.picture(PICTURES / "decision-features.png")
    page.run("(() => { const f = document.getElementById('ask'); f.elements.context.value = '{words'; f.requestSubmit(); })()")
    assert "neither a list of numbers nor an object" in page.wait("document.querySelector('#ask .problem')?.innerText")


def test_a_question_under_contexts_begins_with_the_users_newest_one(server, page):
    client = Client(server)
    client.put_tenant("rainy", algorithm="lin-ucb", context_dim=2)
    client.put_arms("rainy", ["tea", "rum"])
    for k, context in enumerate(([0.5, -1], [0.25, 2])):
        client.select("ann", decision=f"r{k}", context=context, tenant="rainy")
        client.reward(f"r{k}", k, tenant="rainy")
    show(page, server, "t", "rainy", "decision", "now", "ann")
    page.wait("document.getElementById('now')")
    assert page.run("document.getElementById('ask').elements.context.value") == "0.25, 2"
    told = client.select("ann", context=[0.25, 2], explain=True, dry_run=True, tenant="rainy")
    assert {r["arm"].split(" ←")[0]: r["mean"] for r in page.cells("candidates")} == {r["arm"]: num(r["mean"]) for r in told["ranking"]}


# --- neighbours -----------------------------------------------------------------------------------------------------------------


def test_edges_and_the_way_to_a_user_are_those_of_the_graph(seeded, page):
    show(page, seeded.server, "t", "town", "neighbours", "p3", "2")
    page.wait("document.getElementById('ramp')")
    open_all(page)
    near = seeded.call("GET", "/tenants/town/graph/near", query={"user": "p3", "hops": 2, "limit": 300}).json
    users = near["users"]
    assert page.cells("edges") == [{"user": users[e["from"]]["id"], "and": users[e["to"]]["id"], "weight": num(e["weight"])} for e in near["edges"]]
    friends = collections.defaultdict(set)
    for e in near["edges"]:
        friends[users[e["from"]]["id"]].add(users[e["to"]]["id"])
        friends[users[e["to"]]["id"]].add(users[e["from"]]["id"])
    kernel = {u["id"]: u["kernel"] for u in users}
    page.run("document.querySelector('canvas.graph').focus()")
    far = next(i for i, u in enumerate(users) if u["hops"] == 2)
    page.press("ArrowRight", far)
    page.wait(f"document.querySelector('#chosen h2').innerText === {json.dumps(users[far]['id'])}")
    way = page.cells("way")
    assert (way[0]["user"], way[-1]["user"], len(way)) == ("p3", users[far]["id"], 3)
    assert all(b["user"] in friends[a["user"]] for a, b in zip(way, way[1:])) and [w["kernel"] for w in way] == [num(kernel[w["user"]]) for w in way]


def test_what_the_pointer_is_over_is_told(seeded, page):
    show(page, seeded.server, "t", "town", "neighbours", "p3", "2")
    page.wait("document.getElementById('ramp') && document.querySelector('canvas.graph').dataset.rest", 60)
    users = {u["id"] for u in seeded.call("GET", "/tenants/town/graph/near", query={"user": "p3", "hops": 2, "limit": 300}).json["users"]}
    open_all(page)
    expected = {r["user"]: f"{r['user']}: {r['mean']} {r['bounds']}, sd {r['sd']}" for r in page.cells("near")}
    heard = set(page.run("""(() => { const c = document.querySelector('canvas.graph'), b = c.getBoundingClientRect(), heard = new Set();
        for (let i = 0; i < 60; i++) for (let j = 0; j < 60; j++) {
            c.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + b.width * (i + 0.5) / 60, clientY: b.top + b.height * (j + 0.5) / 60 }));
            heard.add(document.getElementById('pointed').innerText.trim());
        }
        return [...heard]; })()"""))
    assert "" in heard and heard - {""} == set(expected.values()) and expected.keys() == users
    page.run("document.querySelector('canvas.graph').dispatchEvent(new PointerEvent('pointerleave'))")
    assert page.text("#pointed").strip() == ""


# --- challengers, model, evaluation, audit --------------------------------------------------------------------------------------


def test_how_the_scores_of_challengers_went_is_what_the_history_says(server, page):
    client, rng, earns = Client(server), random.Random(3), {"red": 0.1, "green": 0.6}
    client.put_tenant("raced", algorithm="ts", rule={"epsilon": 0.4}, log_candidates=True, reward_window_s=1, challengers={"greedy": {"rule": {"epsilon": 0.05}}, "even": {"algorithm": "random"}})
    client.put_arms("raced", list(earns))
    for k in range(80):
        client.reward(f"raced-{k}", int(rng.random() < earns[client.select(f"u{k}", decision=f"raced-{k}", tenant="raced")["arm"]]), tenant="raced")
        time.sleep(0.03)  # windows close while others are open: the history has a point for each few
    time.sleep(1.2)
    client.select("last", tenant="raced")  # windows close by the lines behind them
    deadline = time.monotonic() + 30
    while any(c["lag"] or c["open"] > 1 for c in client.call("GET", "/tenants/raced/challengers").json["challengers"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    history = lambda: client.call("GET", "/tenants/raced/challengers", query={"history": 1}).json["challengers"]  # noqa: E731
    told, before = history(), None
    while told != before:  # no point is to come between the page and the answer
        assert time.monotonic() < deadline
        time.sleep(1.5)
        told, before = history(), told
    show(page, server, "t", "raced", "challengers")
    page.wait("document.getElementById('race-course')")
    open_all(page)
    ends = lambda e: span(e["lower"], e["upper"])  # noqa: E731
    told = history()
    want = [{"challenger": c["name"], "decisions": count(p["decisions"]), "at (UTC)": stamp(p["at"]), "difference": num(p["difference"]["estimate"]), "interval": ends(p["difference"]),
             "its value": num(p["snips"]["estimate"]), "interval ": ends(p["snips"]), "in force": num(p["in_force"]["estimate"]), "interval  ": ends(p["in_force"]),
             "weights": num(p["weights"]["estimate"]), "interval   ": ends(p["weights"]), "worth": num(p["ess"])} for c in told for p in c["history"]]
    assert page.cells("race-course") == want and len(want) > 20
    page.picture(PICTURES / "challengers-course.png")


def test_limits_that_are_set_are_told(server, page):
    client = Client(server)
    client.put_tenant("slow", algorithm="ts")
    client.call("PUT", "/tenants/slow/limits", {"rate": 2500.5, "burst": 12345})
    show(page, server, "t", "slow", "audit")
    page.wait("document.getElementById('limits')")
    assert page.text("#limits").startswith("2501 tokens come in a second, 12350 can be saved up, set for this tenant.")
    shown = float(page.text("#available"))
    left = client.call("GET", "/tenants/slow/limits").json["available"]  # a little later: the page's own requests cost some, and some came back
    assert 12000 < shown <= 12350 and 12000 < left <= 12345
    assert abs(page.run("Number(document.querySelector('#available .fill').getAttribute('width')) / Number(document.querySelector('#available .track').getAttribute('width'))") - shown / 12345) < 1e-3


def test_the_model_says_what_it_rests_on_and_how_its_scales_came_about(server, page):
    client = Client(server)
    seed_town(client, "rests", rounds=260)
    show(page, server, "t", "rests", "model")
    open_all(page)
    page.wait("document.getElementById('history')")
    model, graph, view = client.model("rests"), client.call("GET", "/tenants/rests/graph").json, client.call("GET", "/tenants/rests").json
    rests = page.text("#rests")
    assert f"Algorithm {model['algorithm']}, version {model['version']} " in rests
    assert f"{count(graph['users'])} users, {count(graph['edges'])} edges and {count(graph['components'])} component" in rests
    assert f"the log has {size(view['log']['bytes'])} on the disk" in rests
    assert json.loads(page.text("pre[aria-label='Parameters in force']")) == model["parameters"]
    history = [t for t in model["scales"]["history"] if t["rewards"] > 0]
    columns = ("mean", "noise", "arm", "feature", "user", "context", "linear", "lengthscale", "rho")
    assert len(history) > 2 and page.cells("history") == [{"rewards": count(t["rewards"]), **{c: num(t[c]) for c in columns}} for t in history]


def test_how_the_model_grew_is_what_its_history_says(server, page):
    client = Client(server)
    client.put_tenant("grows", algorithm="ek-ucb")
    for k in range(100):
        client.observe(f"u{k % 7}", "abcd"[k % 4], k % 2, tenant="grows")
    show(page, server, "t", "grows", "model")
    open_all(page)
    model = client.call("GET", "/tenants/grows/model", query={"history": 1}).json
    want = [{"rewards": count(p["events"]), "at (UTC)": stamp(p["at"]), "version": count(p["version"]), "points": count(p["points"]), "may hold": count(p["cap"]),
             "effective dimension": num(p["effective_dimension"]), "information gain": num(p["information_gain"]), "weight of the first reward": percent(p["first_weight"])} for p in model["history"]]
    assert len(want) > 2 and page.cells("growth") == want
    assert (model["spectrum"] is None) == page.run("document.getElementById('spectrum') === null")
    if model["spectrum"]:
        assert [r["eigenvalue"] for r in page.cells("spectrum")] == [num(x) for x in model["spectrum"]["eigenvalues"]]


def test_a_dictionary_with_a_cap_is_told_of(server, page):
    client = Client(server)
    client.put_tenant("capped", algorithm="ek-ucb")
    client.put_arms("capped", ["a", "b"])
    for k in range(20):
        client.observe(f"u{k}", "ab"[k % 2], k % 2, tenant="capped")
    show(page, server, "t", "capped", "model")
    model = client.model("capped")
    cap = model["parameters"]["representation"]["max_dictionary"]
    size = {row["what"].split(":")[0]: row["number"] for row in page.cells("size")}
    assert size == {"rewards learned": count(model["events"]), "points that the model holds": count(len(model["dictionary"])), "effective dimension": num(model["effective_dimension"]),
                    "points that it may hold": count(cap)}


def test_a_fold_shows_how_far_it_is_and_is_cancelled(boot, page, tmp_path):
    """It is held where it is; what is seen then is what the API says, and Cancel ends it on the server."""
    gate = tmp_path / "gate"
    server = boot(env={"LAPLACED_FAILPOINT": f"mid_refold@{gate}"})
    client = Client(server)
    client.put_tenant("long", algorithm="ek-ucb")
    lines = [{"user": f"u{i % 50}", "arm": "ab"[i % 2], "reward": i % 2} for i in range(20000)]
    for part in (lines[:10000], lines[10000:]):
        client.call("POST", "/observe", part, kind=NDJSON, tenant="long")
    show(page, server, "t", "long", "model")
    page.wait("document.getElementById('verify')")
    hold_a_fold(client, "long", gate, lambda: page.run("document.getElementById('verify').click()"))

    def is_shown():  # it may have come one line further between the gate and its first answer
        now = client.call("GET", "/tenants/long/verify").json
        return (page.run("document.getElementById('folded').innerText") == f"{count(now['events'])} lines of the log are folded, {percent(now['progress'])} of it." and
                page.run("document.querySelector('#verified progress').value") == now["progress"])
    until(is_shown)
    assert page.run("document.getElementById('verify').disabled")
    page.run("document.getElementById('stop').click()")
    page.wait("document.getElementById('stop').disabled")
    until(lambda: not client.call("GET", "/tenants/long/verify").json["running"])
    gate.unlink()
    page.wait("document.getElementById('verified').innerText.startsWith('Cancelled') && !document.getElementById('verify').disabled")
    page.run("document.getElementById('verify').click()")
    page.wait("document.querySelector('#verified .good')", 60)


def test_weights_of_an_evaluation_and_their_histogram_are_the_results(seeded, page):
    made = seeded.call("POST", "/tenants/page/evaluations", {"policies": ["logged", "uniform", {"arm": "green"}]}, expect=202).json
    show(page, seeded.server, "t", "page", "evaluation", made["id"])
    page.wait("document.getElementById('job')?.dataset.state === 'done'", 60)
    open_all(page)
    policies = seeded.call("GET", f"/tenants/page/evaluations/{made['id']}").json["result"]["policies"]
    assert page.cells("weights") == [{"policy": p["name"], "mean weight": num(p["weights"]["mean"]), "its standard error": num(p["weights"]["mean_error"]), "largest": num(p["weights"]["max"]),
                                      "worth decisions": num(p["ess"]), "never shown by the log": percent(p["unsupported"])} for p in policies]
    want = []
    for p in policies:
        hist = p["weights"]["histogram"]
        want += [{"policy": p["name"], "from": "0", "to": "0", "decisions": count(hist["zero"]), "sum of weights": "0"}] if hist["zero"] else []
        want += [{"policy": p["name"], "from": num(a), "to": num(b), "decisions": count(int(n)), "sum of weights": num(m)}
                 for a, b, n, m in zip(hist["edges"], hist["edges"][1:], hist["counts"], hist["mass"])]
        assert hist["zero"] + sum(hist["counts"]) == p["n"]
    assert page.cells("histogram") == want and any(r["to"] == "0" for r in want)
    assert page.run("document.querySelectorAll('#histograms rect.fill').length") == len(want)
    page.picture(PICTURES / "evaluated-weights.png")
    seeded.call("DELETE", f"/tenants/page/evaluations/{made['id']}", expect=204)


def test_an_evaluation_of_slots_by_a_metric_is_begun_and_shown(seeded, page):
    """Estimates of whole decisions stand beside those of the first slot, over what the log earned in all slots."""
    seeded.put_tenant("slots", algorithm="ts", tune=False, rule={"epsilon": 0.6}, reward_window_s=1, metrics=[{"name": "revenue", "range": [0, 4], "aggregation": "sum"}])
    seeded.put_arms("slots", [{"id": a} for a in "abcd"])
    for k in range(60):
        slots = [{"id": "top"}, {"id": "left"}][: 1 + k % 2]
        seeded.call("POST", "/select", {"user": f"u{k % 9}", "decision": f"s{k}", "slots": slots}, tenant="slots")
        if k % 5 == 0:
            continue
        seeded.call("POST", "/reward", [{"decision": f"s{k}", "slot": s["id"], "metric": "revenue", "reward": (k % 4) / 2} for s in slots], tenant="slots")
    until(lambda: sum(e["type"] == "expired" for e in seeded.events("slots")) == 60)
    show(page, seeded.server, "t", "slots", "evaluation")
    page.run("document.getElementById('evaluate').elements.metric.value = 'revenue'")
    page.run("document.querySelector('#evaluate [type=submit]').click()")
    page.wait("document.getElementById('job')?.dataset.state === 'done'", 60)
    [told] = seeded.call("GET", "/tenants/slots/evaluations").json["evaluations"]
    assert told["request"]["metric"] == "revenue" and "by the metric revenue" in page.text("#job .fine")
    open_all(page)
    result = seeded.call("GET", f"/tenants/slots/evaluations/{told['id']}").json["result"]
    logged, uniform = result["policies"]
    words = {"ips_by_slot": "importance weights by slot", "pseudo_inverse": "pseudo-inverse of the slots"}
    want = [("the log", "mean of the sums", logged["logged_total"])] + [("uniform", w, uniform[key]) for key, w in words.items()]
    rows = page.cells("whole")
    assert [(r["policy"], r["estimate by"], r["estimate"], r["interval"]) for r in rows] == [(who, by, num(e["estimate"]), span(e["lower"], e["upper"])) for who, by, e in want]
    assert uniform["ips_by_slot"]["estimate"] != uniform["ips"]["estimate"] and uniform["most_slots"] == 2
    apart = {r["estimate by"]: r["estimate"] for r in page.cells("differences")}
    [d] = result["differences"]
    assert all(apart[w] == num(d[key]["estimate"]) for key, w in words.items())
    page.picture(PICTURES / "evaluated-slots.png")
    seeded.call("DELETE", f"/tenants/slots/evaluations/{told['id']}", expect=204)
    show(page, seeded.server, "t", "page", "evaluation")
    assert page.run("document.getElementById('evaluate').elements.metric === undefined") and page.run("document.getElementById('whole') === null")
