"""The console: its files and who gets them; and each screen in a browser, beside what the API says."""
import gzip
import json
import pathlib
import random
import re
import threading
import time
import urllib.parse

import pytest

from certs import Authority, Pair
from console_page import (FILES, FOLDER, HOSTILE, KEY, PICTURES, SCREENS, TYPES, assert_shows, axe, browser, count, enter, locked, needs_chromium, num, page,  # noqa: F401
                          percent, seed_page, seed_town, seeded, show, size, span, wilson)
from harness import SERVERS, Client, Server

# --- files ------------------------------------------------------------------------------------------------------------------


def test_each_file_is_served_as_it_is(api):
    tags = set()
    for name in FILES:
        answer = api.call("GET", f"/console/{name}")
        assert answer.content == (FOLDER / name).read_bytes() and answer.headers["Content-Type"] == TYPES[pathlib.Path(name).suffix]
        tags.add(answer.headers["ETag"])
    assert len(tags) == len(FILES) and api.call("GET", "/console/").content == (FOLDER / "index.html").read_bytes()
    assert int(api.call("HEAD", "/console/main.js").headers["Content-Length"]) == len((FOLDER / "main.js").read_bytes())


def test_each_answer_has_the_policy(api):
    for path in ("/console/", "/console/main.js", "/console/console.css"):
        headers = api.call("GET", path).headers
        policy = dict((part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")))
        assert policy == {"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:", "connect-src": "'self'",
                          "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
                          "trusted-types": "'none'"}
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert (headers["Cross-Origin-Opener-Policy"], headers["Cache-Control"]) == ("same-origin", "no-cache") and "Set-Cookie" not in headers


def test_a_copy_that_is_still_good_is_not_sent_again(api):
    for path in ("/console/", "/console/api.js"):
        tag = api.call("GET", path).headers["ETag"]
        for known in (tag, f'"0123456789abcdef", {tag}', f"W/{tag}", "*"):
            answer = api.call("GET", path, headers={"If-None-Match": known}, expect=304)
            assert answer.content == b"" and answer.headers["ETag"] == tag
        assert api.call("GET", path, headers={"If-None-Match": '"0123456789abcdef"'}).content


def test_what_is_no_file_is_not_there(api):
    for name in ("nothing.js", "MAIN.JS", "main.js.map", "a%2fmain.js", "openapi.yaml", "api_console.c"):
        api.call("GET", f"/console/{name}", expect=404)
    api.call("GET", "/console/main.js/more", expect=404)
    for path in ("/console", "/console/", "/console/main.js"):
        api.call("GET", path, query={"key": "k"}, expect=400)
        api.call("POST", path, expect=405)


def test_without_its_slash_the_address_leads_on(api):
    assert api.call("GET", "/console", expect=308).headers["Location"] == "/console/"


def test_the_front_page_leads_to_it_where_it_is(api, boot):
    assert 'href="/console/"' in api.call("GET", "/").text
    assert "/console/" not in Client(boot("--console", "off")).call("GET", "/").text


def test_off_is_off(boot):
    client = Client(boot("--console", "off"))
    for path in ("/console", "/console/", "/console/main.js"):
        assert client.call("GET", path, expect=404).json["type"] == "/problems/no-route"


@pytest.mark.parametrize("listen, tls, word, is_there, is_warned", [
    ("127.0.0.1:0", False, "auto", True, False), ("[::1]:0", False, "auto", True, False), ("0.0.0.0:0", False, "auto", False, False),
    ("0.0.0.0:0", True, "auto", True, False), ("0.0.0.0:0", False, "on", True, True), ("0.0.0.0:0", True, "off", False, False)])
def test_by_itself_it_is_there_where_a_key_cannot_be_overheard(tmp_path, listen, tls, word, is_there, is_warned):
    (tmp_path / "keys").write_text(KEY + "\n")
    args = ["--admin-key-file", str(tmp_path / "keys"), "--console", word]
    authority = Authority(tmp_path) if tls else None
    if tls:
        args += Pair(tmp_path, authority).write(authority.pair("server")).options
    server = Server(tmp_path, *args, listen=listen, cacert=authority.root if tls else None).start()
    try:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        SERVERS.add(server.url)
        Client(server).call("GET", "/console/", expect=200 if is_there else 404)  # without a key: there are no secrets in it
        assert ("--console on, without TLS" in server.log()) == is_warned
    finally:
        server.close()


def test_another_word_is_refused(tmp_path):
    status, said = Server(tmp_path, "--console", "yes").run_to_end()
    assert status != 0 and "console" in said and "auto" in said


def test_it_is_small_and_loads_nothing_but_itself():
    whole = b"".join((FOLDER / name).read_bytes() for name in FILES)
    assert sum(len(gzip.compress((FOLDER / name).read_bytes())) for name in FILES) <= 200_000
    for name in FILES:
        text = (FOLDER / name).read_text()
        for other in ["".join(found) for found in re.findall(r"^import .* from '([^']+)';$|import\('([^']+)'\)", text, re.M)] + re.findall(r'(?:href|src)="([^"#/][^"]*)"', text):
            assert other.removeprefix("./") in FILES, (name, other)
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|document\.cookie|localStorage|\bstyle=", text), name
    assert whole.count(b"fetch(") == 1 and whole.count(b"sessionStorage.setItem") == 1


# --- in a browser -------------------------------------------------------------------------------------------------------------


@needs_chromium
def test_each_screen_is_drawn_without_a_fault(seeded, page):
    """A picture of each is kept below build/."""
    for name, parts in SCREENS.items():
        show(page, seeded.server, *parts)
        if name == "neighbours":
            page.wait("document.querySelector('canvas.graph').dataset.rest")
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), name
        assert len(page.text("main")) > 100 and "undefined" not in page.text("main") and "NaN" not in page.text("main"), name
        page.picture(PICTURES / f"{name}.png")


@needs_chromium
@pytest.mark.parametrize("kind", ["narrow", "dark"])
def test_each_screen_fits_into_320_pixels_and_is_there_in_the_dark(seeded, page, kind):
    if kind == "narrow":
        page.size(320)
    else:
        page.media(prefers_color_scheme="dark")
    for name, parts in SCREENS.items():
        show(page, seeded.server, *parts)
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), name
        paper = page.run("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (kind == "narrow"), paper
        page.picture(PICTURES / f"{name}-{kind}.png")


def missing(stats):
    """Of closed decisions, the share without any reward."""
    closed = stats.get("decisions", 0) - stats.get("pending", 0)
    return max(0, closed - stats["rewards"] + stats["observations"]) / closed if closed else None


@needs_chromium
def test_the_overview_shows_what_the_statistics_say(seeded, page):
    show(page, seeded.server)
    page.wait("document.getElementById('tenants')")
    glances = seeded.call("GET", "/tenants", query={"stats": 1}).json["tenants"]
    listed = {t["name"]: {**t, "glance": t.get("stats") or {}, "stats": seeded.stats(t["name"])} for t in glances}
    route = lambda t, name: t["stats"]["routes"][name]  # noqa: E731
    rows = assert_shows(page, "tenants", {n: t for n, t in listed.items() if t["stats"]["decisions"]}, {
        "tenant": lambda t: t["name"], "algorithm": lambda t: t["algorithm"], "decisions": lambda t: count(t["stats"]["decisions"]),
        "open": lambda t: count(t["stats"]["pending"]), "no reward": lambda t: percent(missing(t["glance"])),
        "mean reward": lambda t: num(route(t, "policy")["mean_reward"]), "95 %": lambda t: span(route(t, "policy")["lower"], route(t, "policy")["upper"]),
        "experiment": lambda t: t["glance"]["experiment"] or "–", "last event": lambda t: t["glance"]["last_event_at"][:19].replace("T", " "),
        "holdout": lambda t: num(route(t, "holdout")["mean_reward"]), "its 95 %": lambda t: span(route(t, "holdout")["lower"], route(t, "holdout")["upper"])})
    assert set(rows) == set(listed)
    assert page.text("[data-of=decisions]") == count(sum(t["stats"]["decisions"] for t in listed.values()))


@needs_chromium
def test_a_look_at_all_tenants_opens_none(boot, page):
    server = boot()
    client = Client(server)
    for tenant in ("asleep", "awake"):
        seed_town(client, tenant, rounds=8)
    assert server.terminate() == 0
    server.start()
    client.stats("awake")
    show(page, server)
    page.wait("document.getElementById('tenants')")
    time.sleep(6)  # a second look
    assert page.run("performance.getEntriesByType('resource').filter(e => e.name.includes('/tenants?stats=1')).length") >= 2
    assert {t["name"]: t["state"] for t in client.call("GET", "/tenants").json["tenants"] if t["name"] in ("asleep", "awake")} == {"asleep": "closed", "awake": "open"}
    rows = {r["tenant"]: r for r in page.cells("tenants")}
    asleep, awake = rows["asleep"], rows["awake"]
    assert (asleep["state"], awake["state"], awake["decisions"]) == ("closed", "open", "8") and {asleep[c] for c in ("decisions", "mean reward", "95 %", "open", "last event")} == {"–"}
    assert page.text("[data-of=decisions]") == "8" and "not counted" in page.text(".lead")
    page.picture(PICTURES / "overview-closed.png")


@needs_chromium
def test_rewards_are_those_of_the_statistics_the_series_and_the_experiment(seeded, page):
    show(page, seeded.server, "t", "page", "traffic", "48", "arm")
    stats, route = seeded.stats("page"), seeded.stats("page")["routes"]
    for name in ("policy", "holdout"):
        assert f"{num(route[name]['mean_reward'])} {span(route[name]['lower'], route[name]['upper'])}" in page.text("#headline")
    assert_shows(page, "leaders", {a["arm"]: a for a in stats["arms"]}, {
        "arm": lambda a: a["arm"], "mean reward": lambda a: num(a["mean_reward"]), "95 %": lambda a: span(a["lower"], a["upper"]),
        "shown": lambda a: count(a["decisions"]), "share": lambda a: percent(a["decisions"] / stats["decisions"]), "rewards": lambda a: count(a["rewards"])})
    series = seeded.call("GET", "/tenants/page/series", query={"step": "minute"}).json["rows"]
    stamp = lambda at: at[:19].replace("T", " ")  # noqa: E731
    assert_shows(page, "course", {stamp(r["at"]): r for r in series}, {
        "minute": lambda r: stamp(r["at"]), "decisions": lambda r: count(r["decisions"]), "rewards": lambda r: count(r["rewards"]),
        "mean reward": lambda r: num(r["sum"] / r["rewards"]), "95 %": lambda r: span(*wilson(r["sum"] / r["rewards"], r["rewards"]))})
    told = seeded.call("GET", "/tenants/page/experiment").json["experiment"]
    against = {d["arm"]: d for d in told["differences"]}
    assert_shows(page, "proved", {a["arm"]: a for a in told["arms"]}, {
        "arm": lambda a: a["arm"], "probably best": lambda a: percent(a["p_best"]),
        "its interval": lambda a: span(against.get(a["arm"], {}).get("lift_lower"), against.get(a["arm"], {}).get("lift_upper"), percent), "loss if chosen": lambda a: num(a["expected_loss"]),
        "difference": lambda a: num(against.get(a["arm"], {}).get("estimate")), "lift": lambda a: percent(against.get(a["arm"], {}).get("lift")),
        "holds always": lambda a: span(against[a["arm"]]["low"], against[a["arm"]]["high"]) if a["arm"] in against else "–"})
    assert_shows(page, "proved-means", {a["arm"]: a for a in told["arms"]}, {
        "arm": lambda a: a["arm"], "mean reward": lambda a: num(a["policy"]["mean"]), "holds always": lambda a: span(a["policy"]["low"], a["policy"]["high"]),
        "decisions": lambda a: count(a["policy"]["decisions"]), "holdout": lambda a: num(a["holdout"]["mean"]), "holds always ": lambda a: span(a["holdout"]["low"], a["holdout"]["high"]),
        "decisions ": lambda a: count(a["holdout"]["decisions"])})
    assert page.run("(() => { const s = document.getElementById('proved').closest('.scroll'); return s.scrollWidth <= s.clientWidth; })()")
    for difference in told["differences"]:
        assert f"{difference['arm']} against red: {difference['sentence']}" in page.text("#sentences")
    assert page.run("document.querySelectorAll('svg .mark').length") == 10  # two versions, in two pictures and one of each arm


@needs_chromium
def test_one_by_one_the_decisions_are_those_of_the_log(seeded, page):
    show(page, seeded.server, "t", "town", "traffic", "log", "arm")
    log = seeded.events("town")
    reward = {e["decision"]: e["reward"] for e in log if e["type"] == "rewarded"}
    decided = [e for e in log if e["type"] == "decided"]
    wide = -(-len(decided) // 30)
    parts = [decided[i:i + wide] for i in range(0, len(decided), wide)]
    rows = page.cells("course")
    assert len(rows) == len(parts)
    for i, (row, part) in enumerate(zip(rows, parts)):
        got = [reward[e["decision"]] for e in part if e["decision"] in reward]
        assert (row["from decision"], row["decisions"], row["open"]) == (count(i * wide + 1), count(len(part)), count(len(part) - len(got)))
        assert (row["mean reward"], row["95 %"]) == (num(sum(got) / len(got)), span(*wilson(sum(got) / len(got), len(got))))


@needs_chromium
def test_a_decision_of_now_and_one_of_the_log(seeded, page):
    show(page, seeded.server, "t", "town", "decision", "now", "p3")
    before = seeded.digest("town")
    told = seeded.select("p3", explain=True, dry_run=True, tenant="town")
    columns = {"mean": lambda r: num(r["mean"]), "bounds": lambda r: span(r["lower"], r["upper"]), "sd": lambda r: num(r["sd"]),
               "bonus": lambda r: num(r["score"] - r["mean"]), "score": lambda r: num(r["score"]), "propensity": lambda r: num(r["propensity"])}
    rows = {r["arm"].split(" ")[0]: r for r in page.cells("candidates")}
    assert {a: {c: rows[a][c] for c in columns} for a in rows} == {r["arm"]: {c: f(r) for c, f in columns.items()} for r in told["ranking"]}
    assert seeded.digest("town") == before
    drawn = page.text("#now .lead bdi")
    page.run("document.getElementById('friends').open = true")
    page.wait("document.querySelector('#near-by tbody tr')")
    near = {u["id"]: u for u in seeded.call("GET", "/tenants/town/graph/near", query={"user": "p3", "hops": 2}).json["users"]}
    log = seeded.events("town")
    who = {e["decision"]: e["user"] for e in log if e["type"] == "decided" and e["arm"] == drawn}
    given = {}
    for e in log:
        if e["type"] == "rewarded" and e["decision"] in who:
            given.setdefault(who[e["decision"]], []).append(e["reward"])
    mean = lambda u: sum(given[u]) / len(given[u])  # noqa: E731
    rows = assert_shows(page, "near-by", {u: u for u in given if u in near}, {
        "user": lambda u: u, "edges away": lambda u: count(near[u]["hops"]), "kernel": lambda u: num(near[u]["kernel"]), "rewards": lambda u: count(len(given[u])),
        "their mean": lambda u: num(mean(u)), "95 %": lambda u: span(*wilson(mean(u), len(given[u])))})
    assert len(rows) == len(given.keys() & near.keys()) > 2
    page.run("document.querySelector('#newest a').click()")
    page.wait("document.getElementById('story')")
    newest = [e for e in seeded.events("town") if e["type"] == "decided"][-1]
    story = seeded.call("GET", f"/tenants/town/decisions/{newest['decision']}").json
    text = page.text("#story")
    assert newest["decision"] in text and f"{newest['arm']} for {newest['user']}" in text and num(newest["propensity"]) in text
    assert [r["arm"].split(" ")[0] for r in page.cells("candidates")] == [r["arm"] for r in story["answer"]["ranking"]]


def assert_taught(page, told, user):
    """The table of who taught it is the answer's, and what it shows sums up to the mean."""
    page.wait(f"document.querySelector('#teachers strong')?.innerText === {json.dumps(num(told['mean']))} && document.querySelectorAll('#taught tbody tr').length === {len(told['terms']) + 1 + (told['others']['users'] > 0)}")
    rows = page.cells("taught")
    users = [{"from": "the user" if t["user"] == user else "another user", "user": t["user"], "adds": num(t["term"]), "rewards": num(t["rewards"]), "their mean": num(t["mean_reward"])}
             for t in told["terms"]]
    others = [{"from": f"{count(told['others']['users'])} others", "user": "–", "adds": num(told["others"]["term"]), "rewards": "–", "their mean": "–"}] if told["others"]["users"] else []
    prior = [{"from": "knowing nothing", "user": "–", "adds": num(told["prior"]), "rewards": "–", "their mean": "–"}]
    assert [{k: r[k] for k in ("from", "user", "adds", "rewards", "their mean")} for r in rows] == users + others + prior
    size = sum(abs(t["term"]) for t in told["terms"]) + abs(told["others"]["term"]) + abs(told["prior"])
    assert abs(sum(float(r["adds"]) for r in rows) - told["mean"]) <= 5e-4 * size + 1e-12  # of four digits each
    assert page.run("document.querySelectorAll('#taught tbody td.picture rect').length") == len(rows)


def neighbours_of(client, tenant, user, arm, **body):
    return client.call("POST", f"/tenants/{tenant}/posterior", {"users": [user], "arms": [arm], "neighbours": 10, **body}).json["neighbours"]


@needs_chromium
def test_a_decision_tells_who_taught_the_model_each_arm(seeded, page):
    show(page, seeded.server, "t", "town", "decision", "now", "p3")
    for arm in ("tea", "rum", "milk"):
        page.wait("document.querySelector('#teachers select')")
        page.run(f"(() => {{ const s = document.querySelector('#teachers select'); s.value = {json.dumps(arm)}; s.dispatchEvent(new Event('change')); }})()")
        told = neighbours_of(seeded, "town", "p3", arm)
        assert len(told["terms"]) > 2
        assert_taught(page, told, "p3")


@needs_chromium
def test_of_a_user_who_is_not_named_nothing_is_said_of_others(seeded, page):
    """Nobody says that the rest is of others: a part of it may be the user's own."""
    for user, is_named in (("p3", True), ("a newcomer", False)):
        show(page, seeded.server, "t", "town", "decision", "now", user)
        page.wait("document.querySelector('#teachers select')")
        arm = page.run("document.querySelector('#teachers select').value")
        told = neighbours_of(seeded, "town", user, arm)
        assert told["terms"] and any(t["user"] == user for t in told["terms"]) == is_named
        assert_taught(page, told, user)
        assert ("from those of others." in page.text("#teachers p")) == is_named
        assert is_named or page.text("#teachers p").endswith("comes from rewards.")


@needs_chromium
def test_a_neighbourhood_tells_who_taught_the_model_what_it_expects_of_the_chosen_one(seeded, page):
    show(page, seeded.server, "t", "town", "neighbours", "p3", "2")
    page.wait("document.querySelector('#taught tbody tr')")
    arm = page.text("#arm bdi")
    assert_taught(page, neighbours_of(seeded, "town", "p3", arm), "p3")
    page.run("document.querySelector('.beside canvas').focus()")
    page.press("ArrowRight", 2)
    chosen = page.text("#chosen h2")
    assert chosen != "p3"
    page.wait(f"document.querySelector('#teachers h2').innerText === {json.dumps(f'What is known of {chosen} and {arm}')}")
    assert_taught(page, neighbours_of(seeded, "town", chosen, arm), chosen)


@needs_chromium
def test_a_model_that_has_learned_too_much_to_tell_who_taught_it_says_so(seeded, page):
    """b67_neighbours.py has the refusal from a real model of that size; here it is put in the place of the answer."""
    problem = {"type": "about:blank", "status": 400, "title": "Bad Request", "detail": "the body does not fit the schema", "limit": "neighbours_work", "max": 2e9,
               "errors": [{"pointer": "/neighbours", "detail": "all rewards that the model has learned are 2.88e+09 multiply-adds, of 2e+09 at most"}]}
    for screen in (("decision", "now", "p3"), ("neighbours", "p3", "2")):
        show(page, seeded.server, "t", "town", "model")
        page.run(f"""(() => {{ const real = window.fetch; window.fetch = (path, options) => (options?.body?.includes('"neighbours"')
            ? Promise.resolve(new Response({json.dumps(json.dumps(problem))}, {{ status: 400, headers: {{ 'Content-Type': 'application/problem+json' }} }})) : real(path, options)); }})()""")
        page.run(f"location.hash = {json.dumps('#/t/town/' + '/'.join(screen))}")
        page.wait("document.querySelector('#untold')")
        assert "so many rewards" in page.text("#untold") and not page.run("document.querySelector('#teachers .problem') !== null")


@needs_chromium
def test_a_model_that_compares_no_users_says_so(server, page):
    client = Client(server)
    client.put_tenant("alike", algorithm="ts", tune=False)
    client.put_arms("alike", ["tea", "rum"])
    for user in ("ann", "bob"):
        client.observe(user, "tea", 1, tenant="alike")
    show(page, server, "t", "alike", "decision", "now", "cat")
    page.run("(() => { const s = document.querySelector('#teachers select'); s.value = 'tea'; s.dispatchEvent(new Event('change')); })()")
    assert_taught(page, neighbours_of(client, "alike", "cat", "tea"), "cat")
    assert "does not compare users" in page.text("#teachers")
    page.run("(() => { const s = document.querySelector('#teachers select'); s.value = 'rum'; s.dispatchEvent(new Event('change')); })()")
    page.wait("document.querySelector('#teachers').innerText.includes('No reward has taught')")


@needs_chromium
def test_a_version_from_before_the_first_line_is_known(seeded, page):
    show(page, seeded.server, "t", "town", "traffic")
    assert page.run("""import('./log.js').then(({ decisionsOf }) => decisionsOf([{ type: 'decided', decision: 'c', arm: 'a' }, { type: 'configured', version: 8 }, { type: 'decided', decision: 'b', arm: 'a' }], 'last', 7)
        .map(d => d.version))""") == [7, 8]


def told_of(page, server, tenant, decision):
    show(page, server, "t", tenant, "decision", "id", decision)
    return re.sub(r" after [0-9.]+ (ms|s|min)", "", page.wait("document.getElementById('outcome')?.innerText"))


@needs_chromium
def test_the_story_of_a_decision_words_each_line_by_its_kind(server, page):
    """Rewards, values of metrics, what comes late, and what a sum comes to."""
    client = Client(server)
    client.put_tenant("values", algorithm="ucb", default_reward=None, metrics=[{"name": "clicked", "role": "objective"}, {"name": "revenue", "aggregation": "sum", "range": [0, 100]}])
    tell = lambda tenant, decision, reward, **more: client.call("POST", "/reward", {"decision": decision, "reward": reward, **more}, tenant=tenant)  # noqa: E731
    client.select("ann", candidates=["a", "b"], decision="v", tenant="values")
    tell("values", "v", 12.5, metric="revenue")
    assert told_of(page, server, "values", "v").strip() == "It waits for its reward. Measured revenue = 12.5."
    tell("values", "v", 2.5, metric="revenue")
    tell("values", "v", 1)
    assert told_of(page, server, "values", "v").strip() == "Measured revenue = 12.5. Measured revenue = 2.5 (15 in all). Reward 1."

    client.put_tenant("sums", algorithm="ucb", default_reward=None, aggregation="sum", metrics=[
        {"name": "clicked", "role": "objective", "aggregation": "last"}, {"name": "sale", "role": "objective", "weight": 0.25, "aggregation": "sum", "range": [0, 100]}])
    client.select("ann", candidates=["a", "b"], decision="s", tenant="sums")
    tell("sums", "s", 1, metric="clicked")
    tell("sums", "s", 8, metric="sale")
    lines = client.call("GET", "/tenants/sums/decisions/s").json["rewards"]
    assert [(r["metric"], r["value"], r["reward"]) for r in lines] == [("clicked", 1, 1), ("sale", 8, 2)]
    assert told_of(page, server, "sums", "s").strip() == "clicked = 1, which changed the reward by 1. sale = 8, which changed the reward by 2. Its reward adds up to 3."

    client.put_tenant("tardy", algorithm="ucb", reward_window_s=1, default_reward=None)
    client.select("ann", candidates=["a", "b"], decision="l", tenant="tardy")
    deadline = time.monotonic() + 20
    while client.call("GET", "/tenants/tardy/decisions/l").json["state"] != "expired":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client.call("POST", "/reward", {"decision": "l", "reward": 1}, tenant="tardy", expect=(200, 409, 410))
    assert told_of(page, server, "tardy", "l").strip() == "Its window has closed without a reward. Reward 1 (late: not learned)."
    page.picture(PICTURES / "decision-late.png")
    show(page, server, "t", "sums", "decision", "id", "s")
    page.wait("document.getElementById('outcome')")
    page.picture(PICTURES / "decision-told.png")


@needs_chromium
def test_decisions_are_seen_while_more_come_without_a_pause(server, page):
    """A line every 20 ms: each look at the stream finds some, so a look that waits for silence would never come."""
    client, busy = Client(server), threading.Event()
    seed_town(client, "flood", rounds=5)
    show(page, server, "t", "flood", "decision")
    time.sleep(0.5)

    def decide():
        own, k = Client(server), 0
        while not busy.is_set():
            own.select("p0", decision=f"flood-more-{k}", tenant="flood")
            k += 1
            time.sleep(0.02)
    flood = threading.Thread(target=decide)
    flood.start()
    try:
        for _ in range(3):  # three looks within less than the clock's ten seconds
            newest = page.text("#newest tbody td")
            page.wait(f"document.querySelector('#newest tbody td').innerText !== {json.dumps(newest)}", 3)
        assert page.text("#newest tbody td").startswith("flood-more-")
    finally:
        busy.set()
        flood.join()


@needs_chromium
def test_decisions_are_seen_as_they_come(server, page):
    """By the stream of events: the clock alone would ask again after ten seconds."""
    client = Client(server)
    seed_town(client, "stream", rounds=5)
    show(page, server, "t", "stream", "decision")
    time.sleep(0.5)
    for k in range(3):
        client.select("p0", decision=f"fresh-{k}", tenant="stream")
        page.wait(f"document.querySelector('#newest tbody td')?.innerText === 'fresh-{k}'", 5)


@needs_chromium
def test_the_model_says_what_it_has_learned(seeded, page):
    show(page, seeded.server, "t", "town", "model")
    model = seeded.model("town")
    assert page.text("#words") == model["scales"]["words"] + "." and page.text("#digest") == model["digest"]
    words = {"arm": "the arm alone", "user": "users and their friends"}
    assert_shows(page, "shares", {words[k]: k for k, v in model["scales"]["shares"].items() if v > 0}, {
        "part": lambda k: words[k], "share": lambda k: percent(model["scales"]["shares"][k]), "standard deviation": lambda k: num(model["scales"]["in_force"][k] ** 0.5)})
    size = {row["what"].split(":")[0]: row["number"] for row in page.cells("size")}
    assert size == {"rewards learned": count(model["events"]), "points that the model holds": count(len(model["dictionary"])), "effective dimension": num(model["effective_dimension"])}
    page.run("document.getElementById('verify').click()")
    page.wait("document.querySelector('#verified .good')")
    assert "equals a fresh fold" in page.text("#verified")


@needs_chromium
def test_the_answer_of_a_fold_stays_when_the_model_moves_on(server, page):
    page.send("Page.addScriptToEvaluateOnNewDocument", {"source": "const later = window.setTimeout.bind(window); window.setTimeout = (f, ms) => later(f, ms / 20);"})  # the clock, a second for twenty
    client = Client(server)
    seed_town(client, "moves", rounds=8)
    show(page, server, "t", "moves", "model")
    page.wait("document.getElementById('verify')")
    page.run("document.getElementById('verify').click()")
    page.wait("document.querySelector('#verified .good') && !document.getElementById('verify').disabled")
    client.select("p1", decision="moves-on", tenant="moves")
    client.reward("moves-on", 1, tenant="moves")
    digest = client.digest("moves")
    page.wait(f"document.getElementById('digest').innerText === {json.dumps(digest)}")
    assert "equals a fresh fold" in page.text("#verified")


@needs_chromium
def test_challengers_are_promoted_and_rolled_back_by_the_tenants_name(server, page):
    client = Client(server)
    seed_page(client, "race")
    show(page, server, "t", "race", "challengers")
    scores = {c["name"]: c for c in client.call("GET", "/tenants/race/challengers").json["challengers"]}
    ends = lambda part: lambda c: span(c[part]["lower"], c[part]["upper"])  # noqa: E731
    assert_shows(page, "scores", scores, {
        "challenger": lambda c: c["name"], "difference": lambda c: num(c["difference"]["estimate"]), "interval": ends("difference"),
        "weights (about 1?)": lambda c: num(c["weights"]["estimate"]), "interval ": ends("weights"), "worth": lambda c: num(c["ess"]),
        "guardrail": lambda c: c["guardrail"]["verdict"].replace("_", " ") if c["guardrail"] else "–"})
    assert_shows(page, "values", scores, {
        "challenger": lambda c: c["name"], "its value": lambda c: num(c["snips"]["estimate"]), "interval": ends("snips"), "in force": lambda c: num(c["in_force"]["estimate"]),
        "interval ": ends("in_force"), "decisions": lambda c: count(c["decisions"]), "behind by": lambda c: count(c["lag"]), "open": lambda c: count(c["open"]),
        "no reward": lambda c: count(c["unrewarded"]), "learned": lambda c: count(c["learned"]), "memory": lambda c: size(c["bytes"]),
        "guarded difference": lambda c: num((c["guardrail"] or {"difference": {"estimate": None}})["difference"]["estimate"]),
        "holds always": lambda c: span(c["guardrail"]["difference"]["lower"], c["guardrail"]["difference"]["upper"]) if c["guardrail"] else "–"})
    version = client.call("GET", "/tenants/race").json["version"]
    page.run("document.querySelector('#race button').click()")
    assert page.run("document.querySelector('dialog button[type=submit]').disabled")
    page.type("rac")
    assert page.run("document.querySelector('dialog button[type=submit]').disabled")
    page.type("e")
    page.press("Enter")
    page.wait("document.getElementById('rollback') && !document.querySelector('dialog')")
    in_force = client.call("GET", "/tenants/race").json
    assert (in_force["version"], in_force["configuration"]["promotion"]["challenger"]) == (version + 1, "greedy")
    client.call("PATCH", "/tenants/race", {"reward_window_s": 600})  # meanwhile somebody changes it: what was looked at is gone
    page.run("document.getElementById('rollback').click()")
    page.type("race")
    page.press("Enter")
    said = page.wait("document.querySelector('dialog .problem')?.innerText")
    assert "version" in said and client.call("GET", "/tenants/race").json["version"] == version + 2
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    page.wait(f"document.querySelector('.lead').innerText.includes('Version {version + 2} ')")
    page.run("document.getElementById('rollback').click()")
    page.type("race")
    page.press("Enter")
    page.wait(f"document.querySelector('.lead').innerText.includes('Version {version + 3} ')")
    assert client.call("GET", "/tenants/race").json["configuration"]["promotion"]["reason"] == "rollback"
    # Changes have drawn the region anew twice: one of them asks, every three seconds, and those before have ended.
    page.run("""(() => { const own = window.fetch; window.asked = 0;
        window.fetch = (path, options) => { if (String(path).includes('/race/challengers')) window.asked++; return own(path, options); }; })()""")
    page.run("new Promise((done) => setTimeout(done, 7000))")
    assert 1 <= page.run("window.asked") <= 3


@needs_chromium
def test_the_audit_tells_who_changed_what(browser, page, boot, tmp_path):
    (tmp_path / "keys").write_text(KEY + "\n")
    server = boot("--admin-key-file", str(tmp_path / "keys"))
    admin = Client(server, KEY)
    admin.put_tenant("shop", algorithm="ts")
    made = admin.call("POST", "/tenants/shop/keys", {"roles": ["manage", "read"], "label": "ann"}, expect=201).json
    Client(server, made["key"]).call("PATCH", "/tenants/shop", {"rule": {"epsilon": 0.125}})
    Client(server, made["key"]).put_arms("shop", [{"id": "tea"}])
    page.goto(f"{server.url}/console/")
    page.wait("document.getElementById('key-form')")
    page.run(f"sessionStorage.setItem('laplaced.key', {json.dumps(KEY)})")
    show(page, server, "t", "shop", "audit")
    page.wait("document.getElementById('trail') && document.getElementById('keys')")
    lines = [e for e in admin.events("shop") if e["type"] in ("configured", "arms")][::-1]
    rows = page.cells("trail")
    assert [(r["event"], r["by key"], r["kind"]) for r in rows] == [(count(e["seq"]), e.get("by", "–"), e["type"]) for e in lines]
    assert "/rule/epsilon" in rows[1]["what"] and "0.125" in rows[1]["what"] and "tea" in rows[0]["what"]
    [key] = page.cells("keys")
    assert (key["key"], key["label"], set(key["roles"].split())) == (made["id"], "ann", {"read", "manage"})
    assert page.text("#limits").startswith("No limit")
    page.run("document.querySelector('#keys button').click()")
    page.type("shop")
    page.press("Enter")
    page.wait("document.body.innerText.includes('There are none.')")
    assert admin.call("GET", "/tenants/shop/keys").json["keys"] == []

@needs_chromium
def test_policies_are_evaluated_watched_and_forgotten(seeded, page):
    show(page, seeded.server, "t", "page", "evaluation")
    page.run("""(() => { const f = document.getElementById('evaluate').elements; f.arm.value = 'green'; f['challenger-greedy'].checked = true; f.preset.value = 'ucb'; f.from.value = '1'; })()""")
    page.run("document.querySelector('#evaluate [type=submit]').click()")
    page.wait("document.getElementById('job')?.dataset.state === 'done'", 60)
    name = urllib.parse.unquote(page.run("location.hash").split("/")[-1])
    told = seeded.call("GET", f"/tenants/page/evaluations/{name}").json
    assert [p if isinstance(p, str) else p.get("arm") or p["name"] for p in told["request"]["policies"]] == ["logged", "uniform", "green", "greedy", "ucb"]
    assert told["request"]["from"] == 1
    names = {"dr": "doubly robust", "snips": "importance weights, self-normalised", "ips": "importance weights", "clipped_ips": "clipped weights", "replay": "replay of decisions that agree"}
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    rows = {(r["policy"], r["estimate by"]): r for r in page.cells("estimates")}
    for policy in told["result"]["policies"]:
        for key, words in names.items():
            e, row = policy[key], rows[policy["name"], words]
            assert (row["estimate"], row["interval"]) == (num(e.get("estimate")), span(e.get("lower"), e.get("upper")))
    apart = {(r["policy"], r["estimate by"]): r for r in page.cells("differences")}
    for d in told["result"]["differences"]:
        for key in names.keys() & d.keys():
            row = apart[d["policy"], names[key]]
            assert (row["less"], row["estimate"], row["interval"]) == (d["against"], num(d[key]["estimate"]), span(d[key]["lower"], d[key]["upper"]))
    weights = {r["policy"]: r for r in page.cells("weights")}
    for p in told["result"]["policies"]:
        assert (weights[p["name"]]["mean weight"], weights[p["name"]]["worth decisions"]) == (num(p["weights"]["mean"]), num(p["ess"]))
    page.picture(PICTURES / "evaluated.png")
    asked = page.run("performance.getEntriesByType('resource').filter(e => e.name.includes('/evaluations/')).length")
    time.sleep(2.5)  # it has ended: nobody asks for it again
    assert page.run("performance.getEntriesByType('resource').filter(e => e.name.includes('/evaluations/')).length") == asked > 0
    page.run("document.getElementById('drop').click()")
    page.wait("document.querySelector('dialog')")
    assert seeded.call("GET", f"/tenants/page/evaluations/{name}").json["state"] == "done"
    page.type("page")
    page.press("Enter")
    page.wait("location.hash === '#/t/page/evaluation' && document.getElementById('kept')")
    assert seeded.call("GET", "/tenants/page/evaluations").json["evaluations"] == []


@needs_chromium
def test_an_evaluation_is_cancelled_and_a_bad_time_is_told(seeded, page):
    show(page, seeded.server, "t", "page", "evaluation")
    page.run("""(() => { const f = document.getElementById('evaluate').elements; f.from.value = 'yesterday'; document.querySelector('#evaluate [type=submit]').click(); })()""")
    assert "neither the number of an event nor a time" in page.wait("document.querySelector('#evaluate .problem')?.innerText")
    page.run("""(() => { const f = document.getElementById('evaluate').elements; f.from.value = '2020-01-01 10:00'; f.preset.value = 'laplaced'; document.querySelector('#evaluate [type=submit]').click(); })()""")
    page.wait("document.getElementById('drop')")
    page.run("document.getElementById('drop').click()")
    page.wait("document.getElementById('job') === null || ['cancelled', 'done'].includes(document.getElementById('job').dataset.state)", 60)
    for e in seeded.call("GET", "/tenants/page/evaluations").json["evaluations"]:
        assert e["state"] in ("cancelled", "done") and e["request"]["from"].startswith("2020-01-01T10:00:00")
        seeded.call("DELETE", f"/tenants/page/evaluations/{e['id']}", expect=204)


# --- keys, restarts, strangers -------------------------------------------------------------------------------------------------


@needs_chromium
def test_a_key_is_asked_for_kept_in_the_tab_and_forgotten(locked, page):
    page.goto(f"{locked.url}/console/#/t/town/model")
    enter(page, "a-key-that-is-none-0123456789")
    said = page.wait("document.querySelector('#key-form .problem')?.innerText")
    assert "key" in said
    enter(page, KEY)
    page.wait("document.getElementById('digest')")
    addresses = page.run("[location.href, ...performance.getEntriesByType('resource').map(e => e.name)]")
    assert not [a for a in addresses if KEY in a] and page.run("document.cookie + JSON.stringify(localStorage)") == "{}"
    page.send("Page.reload")
    page.wait("document.getElementById('digest')")
    page.run("document.getElementById('forget').click()")
    page.wait("document.getElementById('key-form')")
    assert page.run("sessionStorage.length") == 0
    assert all("401" in f for f in page.failed) and KEY not in locked.log()


@needs_chromium
def test_a_key_makes_a_shorter_one_in_its_place(locked, page):
    page.goto(f"{locked.url}/console/#/t/town/model")
    page.wait("document.getElementById('key-form')")
    page.run("document.querySelector('[name=short]').checked = true")
    enter(page, KEY)
    page.wait("document.getElementById('digest')")
    short = page.run("sessionStorage.getItem('laplaced.key')")
    [made] = Client(locked, KEY).call("GET", "/keys").json["keys"]
    assert short.startswith(f"lpd_{made['id']}_") and made["label"] == "console" and made["expires_at"] > made["created_at"]


@needs_chromium
def test_a_key_that_may_only_read_changes_nothing(locked, page):
    admin = Client(locked, KEY)
    admin.call("PATCH", "/tenants/town", {"challengers": {"even": {"algorithm": "random"}}})
    key = admin.call("POST", "/tenants/town/keys", {"roles": ["read"]}, expect=201).json["key"]
    page.goto(f"{locked.url}/console/#/t/town/challengers")
    enter(page, key)
    page.wait("document.getElementById('race')")
    assert page.run("document.querySelectorAll('main button').length") == page.run("document.querySelectorAll('main button.small:not([aria-label^=Promote])').length")
    for screen, there in (("model", "#digest"), ("audit", "#no-keys"), ("traffic", "#headline"), ("neighbours", "canvas.graph"), ("evaluation", "#kept")):
        page.goto(f"{locked.url}/console/#/t/town/{screen}")
        page.wait(f"document.querySelector('{there}')")
        assert not page.run("document.querySelector('#verify, #rollback, #make-key, #evaluate, [aria-label^=Promote], [aria-label^=Revoke]')")
    page.goto(f"{locked.url}/console/#/t/town/decision/now/p1")  # it may not decide, and hears so
    assert "decide" in page.wait("document.querySelector('.problem')?.innerText")
    page.goto(f"{locked.url}/console/#/")
    page.wait("document.getElementById('tenants')")
    assert [r["tenant"] for r in page.cells("tenants")] == ["town"]
    assert all("403" in f or "401" in f for f in page.failed)


@needs_chromium
def test_a_server_that_restarts_is_waited_for(boot, page):
    server = boot(listen="127.0.0.1:0")
    client = Client(server)
    seed_town(client, "town", rounds=20)
    show(page, server, "t", "town", "challengers")
    port = server.url.rsplit(":", 1)[1].strip("/")
    server.terminate()
    assert "does not answer" in page.wait("document.querySelector('.away')?.innerText", 15)
    server.listen = f"127.0.0.1:{port}"
    server.start()
    page.wait("!document.querySelector('.away') && document.querySelector('.lead')", 20)
    assert all("ERR_" in f or "503" in f for f in page.failed)


@needs_chromium
def test_a_tenant_that_is_deleted_meanwhile_is_told_of(server, page):
    client = Client(server)
    seed_town(client, "gone", rounds=10)
    show(page, server, "t", "gone", "challengers")
    client.call("DELETE", "/tenants/gone", expect=204)
    assert "Not Found" in page.wait("document.querySelector('.problem')?.innerText", 15)
    page.goto(f"{server.url}/console/#/t/gone/audit")
    page.wait("document.querySelector('.problem')")
    assert all("404" in f for f in page.failed)


@needs_chromium
def test_names_of_others_are_text_everywhere(server, page):
    client = Client(server)
    client.put_tenant("strangers", algorithm="laplaced", experiment={"difference": 0.1}, log_candidates=True, challengers={"even": {"algorithm": "random"}})
    client.put_arms("strangers", [{"id": a} for a in HOSTILE])
    client.put_graph("strangers", [(HOSTILE[i], HOSTILE[i - 1], 1) for i in range(1, len(HOSTILE))])
    for k in range(60):
        client.select(HOSTILE[k % len(HOSTILE)], decision=f"{HOSTILE[0]}{k}", tenant="strangers")
        client.reward(f"{HOSTILE[0]}{k}", k % 2, tenant="strangers")
    expected = {"traffic": ("leaders", "arm"), "decision": ("newest", "user"), "neighbours": ("near", "user")}
    for parts in (("traffic",), ("traffic", "log", "arm"), ("decision", "now", HOSTILE[0]), ("decision", "id", HOSTILE[0] + "5"), ("decision", "now", HOSTILE[4]), ("neighbours", HOSTILE[5]),
                  ("neighbours", HOSTILE[2], "4"), ("neighbours", HOSTILE[1], "4"), ("challengers",), ("model",), ("audit",)):
        show(page, server, "t", "strangers", *parts)
        if parts[0] in expected:
            table, column = expected[parts[0]]
            page.wait(f"document.querySelectorAll('#{table} tbody tr').length")
            page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
            page.run("document.querySelectorAll('.plot').forEach(p => { p.focus(); p.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' })); })")
            assert {r[column] for r in page.cells(table)} >= {h for h in HOSTILE if parts[0] == "traffic" or h in (HOSTILE[5], HOSTILE[1]) or parts[0] == "decision"} - ({HOSTILE[1]} if parts[0] == "neighbours" else set())
        assert page.run("document.querySelectorAll('main script, main img, main b').length") == 0
        assert page.run("[...document.querySelectorAll('main bdi')].every(b => b.childElementCount === 0)")
        # Wherever such a name is seen, it is set apart from the text around it; attributes and titles do not turn lines.
        assert page.run("""(() => { const all = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
            while (all.nextNode()) if (all.currentNode.data.includes('\u202e') && !all.currentNode.parentElement.closest('bdi, code')) return all.currentNode.parentElement.outerHTML;
            return null; })()""") is None
        page.size(320)
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), parts
        page.size(1200)
        page.picture(PICTURES / f"strangers-{parts[0]}.png")


@needs_chromium
def test_csv_has_the_numbers_and_no_formulas(seeded, page):
    show(page, seeded.server, "t", "page", "traffic")
    text = page.run("""import('./table.js').then(({ csv, interval }) => csv(
        [{ name: 'who', value: r => r.a }, { name: 'n', value: r => r.n }, interval('x', r => r.n, r => null), { name: '', kind: 'plot', value: () => 1 }],
        [{ a: '=1+1', n: -0.1 }, { a: 'a"b,c', n: 1e-9 }, { a: null, n: 3 }]))""")
    assert text == "who,n,x low,x high\r\n'=1+1,-0.1,-0.1,\r\n\"a\"\"b,c\",1e-9,1e-9,\r\n,3,3,\r\n"


@needs_chromium
def test_without_a_mouse(seeded, page):
    """Tab leads through the page, what has the focus is seen, and arrow keys move over a picture."""
    show(page, seeded.server, "t", "town", "traffic")
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    seen = []
    for _ in range(40):
        page.press("Tab")
        seen.append(page.run("(() => { const e = document.activeElement; return e === document.body ? '' : e.tagName + ' ' + (e.getAttribute('aria-label') ?? e.innerText ?? '').slice(0, 40) + ' ' + getComputedStyle(e).outlineStyle })()"))
        if seen[-1].startswith("DIV Mean reward over time"):
            break
    assert [s for s in seen if s.startswith("A Challengers")] and [s for s in seen if s.startswith("SELECT")] and seen[-1].startswith("DIV Mean reward")
    assert all(s.endswith("solid") or s.endswith("auto") for s in seen), seen
    page.press("ArrowRight")
    first = page.text("output.reading")
    page.press("ArrowRight", 3)
    assert first.startswith("from decision 1:") and page.text("output.reading") != first
    show(page, seeded.server, "t", "town", "neighbours", "p3")
    page.run("document.querySelector('canvas.graph').focus()")
    before = page.text("#chosen h2")
    page.press("ArrowRight")
    assert page.text("#chosen h2") != before


# --- the graph, and a town -----------------------------------------------------------------------------------------------------


@needs_chromium
def test_the_neighbourhood_is_what_graph_and_posterior_say(seeded, page):
    show(page, seeded.server, "t", "town", "neighbours", "p3", "2")
    page.wait("document.getElementById('ramp')")
    near = seeded.call("GET", "/tenants/town/graph/near", query={"user": "p3", "hops": 2, "limit": 300}).json
    users = [u["id"] for u in near["users"]]
    arms = [a["arm"] for a in sorted(seeded.stats("town")["arms"], key=lambda a: -a["decisions"])]
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    for place, arm in enumerate(arms):
        page.run(f"(() => {{ const s = document.getElementById('arms'); s.value = {place}; s.dispatchEvent(new Event('input')); }})()")
        page.wait(f"document.getElementById('arm').innerText.startsWith({json.dumps(arm)}) && document.getElementById('status').innerText === 'Arm {place + 1} of {len(arms)}'")
        told = seeded.call("POST", "/tenants/town/posterior", {"users": users, "arms": [arm]}).json
        want = {u["id"]: {**u, **{k: told[k][i][0] for k in ("mean", "sd", "lower", "upper")}} for i, u in enumerate(near["users"])}
        rows = assert_shows(page, "near", want, {"user": lambda u: u["id"], "edges away": lambda u: count(u["hops"]), "degree": lambda u: num(u["degree"]), "kernel": lambda u: num(u["kernel"]),
                                                 "mean": lambda u: num(u["mean"]), "sd": lambda u: num(u["sd"]), "bounds": lambda u: span(u["lower"], u["upper"])})
        assert set(rows) == set(users)


@needs_chromium
def test_a_neighbourhood_under_contexts_begins_with_the_newest_of_its_user(server, page):
    client = Client(server)
    client.put_tenant("weather", algorithm="laplaced-kors", context_dim=2)
    client.put_graph("weather", [("ann", "bob", 1), ("bob", "cy", 1)])
    client.put_arms("weather", [{"id": "tea"}, {"id": "rum"}])
    for k, context in enumerate(([0.5, -1], [0.25, 2])):
        client.select("ann", decision=f"w{k}", context=context, tenant="weather")
        client.reward(f"w{k}", k, tenant="weather")
    users = ["ann", "bob", "cy"]

    def assert_expects(context):
        page.wait("document.getElementById('ramp')")
        page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        arm = page.text("#arm bdi")
        told = client.call("POST", "/tenants/weather/posterior", {"users": users, "arms": [arm], "context": context}).json
        assert_shows(page, "near", {u: i for i, u in enumerate(users)}, {"user": lambda i: users[i], "mean": lambda i: num(told["mean"][i][0]), "sd": lambda i: num(told["sd"][i][0])})
    show(page, server, "t", "weather", "neighbours", "ann")
    assert page.run("document.getElementById('around').elements.context.value") == "0.25, 2"
    assert_expects([0.25, 2])
    page.picture(PICTURES / "neighbours-context.png")
    page.run("(() => { const f = document.getElementById('around'); f.elements.context.value = '1, 1'; f.id = 'before'; f.requestSubmit(); })()")
    page.wait("decodeURIComponent(location.hash).endsWith('/ann/2/[1, 1]') && document.getElementById('around')?.elements.context.value === '1, 1'")
    assert_expects([1, 1])
    show(page, server, "t", "weather", "neighbours", "cy")
    assert "2 numbers" in page.wait("document.getElementById('no-context')?.innerText") and not page.run("document.querySelector('.problem')")


@needs_chromium
def test_300_users_move_within_33_ms_a_frame(server, page):
    client, rng = Client(server), random.Random(5)
    client.put_tenant("crowd", algorithm="laplaced")
    client.put_graph("crowd", [("hub", f"n{i}", 1) for i in range(299)] + [(f"n{i}", f"n{rng.randrange(i)}", 1) for i in range(1, 299)])
    client.put_arms("crowd", [{"id": "tea"}])
    show(page, server, "t", "crowd", "neighbours", "hub")
    page.wait("document.querySelector('canvas.graph').dataset.rest", 60)
    stats = page.run("document.querySelector('canvas.graph').stats")
    times = sorted(stats["times"])
    assert len(times) > 50 and times[int(0.95 * len(times))] < 33, times[-10:]
    page.picture(PICTURES / "crowd.png")


@needs_chromium
def test_an_empty_server_greets_and_plays_a_town(boot, page):
    server = boot()
    client = Client(server)
    show(page, server)
    page.wait("document.querySelectorAll('.welcome pre').length === 3")
    assert "decided nothing yet" in page.text(".lead")
    page.picture(PICTURES / "welcome.png")
    page.run("document.getElementById('play').click()")
    page.wait("document.querySelector('#town progress')?.value > 50", 60)
    page.run("[...document.querySelectorAll('#town button')].find(b => b.innerText === 'Cancel').click()")
    page.wait("document.getElementById('town').innerText.includes('Cancelled')")
    broken_off = client.stats("town-1")["decisions"]
    assert 50 < broken_off < 1500
    show(page, server)
    page.run("document.getElementById('begin').open = true")
    page.wait("document.getElementById('play')")
    page.run("document.getElementById('play').click()")
    page.wait("document.getElementById('town').innerText.includes('Look at')", 120)
    stats = client.stats("town-2")
    assert stats["decisions"] == 1500 and 0 <= client.stats("town-1")["decisions"] - broken_off <= 6  # those that were on their way
    assert f"has earned {num(stats['mean_reward'])} " in page.text("#town")
    by_chance = float(re.search(r"chance would have earned ([0-9.]+)", page.text("#town"))[1])
    assert stats["mean_reward"] > by_chance + 0.1


# --- for screen readers ----------------------------------------------------------------------------------------------------------


def assert_sound(page, axe, name):
    page.run(axe + "; 0")
    found = page.run("axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }).then(r => r.violations.map(v => [v.impact, v.id, v.nodes.slice(0, 3).map(n => n.html)]))")
    assert [v for v in found if v[0] in ("serious", "critical")] == [], name


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(seeded, page, axe, scheme):
    page.media(prefers_color_scheme=scheme)
    made = seeded.call("POST", "/tenants/page/evaluations", {"policies": ["logged", "uniform"]}, expect=202).json["id"]
    for name, parts in {**SCREENS, "a decision of the log": ("t", "town", "decision", "id", "town-5"), "evaluated": ("t", "page", "evaluation", made), "by metric": ("t", "page", "traffic", "3", "metric")}.items():
        show(page, seeded.server, *parts)
        if name == "evaluated":
            page.wait("document.getElementById('job')?.dataset.state === 'done'", 60)
        assert_sound(page, axe, name)
    seeded.call("DELETE", f"/tenants/page/evaluations/{made}", expect=204)
    show(page, seeded.server, "t", "page", "challengers")
    page.run("document.querySelector('#race button').click()")
    page.wait("document.querySelector('dialog[open]')")
    assert_sound(page, axe, "dialog")


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_where_it_begins(boot, tmp_path, page, axe, scheme):
    """An empty server's welcome, and the form that asks for a key."""
    page.media(prefers_color_scheme=scheme)
    show(page, boot())
    page.wait("document.querySelectorAll('.welcome pre').length === 3")
    assert_sound(page, axe, "welcome")
    page.picture(PICTURES / f"welcome-{scheme}.png")
    (tmp_path / "keys").write_text(KEY + "\n")
    locked = boot("--admin-key-file", str(tmp_path / "keys"), "--data", str(tmp_path / "other"))
    page.goto(f"{locked.url}/console/")
    enter(page, "a-key-that-is-none-0123456789")
    page.wait("document.querySelector('#key-form .problem')")
    assert_sound(page, axe, "key form")
    page.picture(PICTURES / f"key-{scheme}.png")
