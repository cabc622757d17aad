"""What others have named, on the screens that y00_console.py leaves; and a server that shares its log with others."""
import json
import time
import urllib.parse

import pytest

from console_page import HOSTILE, KEY, PICTURES, browser, enter, locked, needs_chromium, page, show  # noqa: F401
from harness import Client

pytestmark = needs_chromium
TURNS = "\u202e"


def assert_is_text(page, what):
    """No name has become markup, and one that turns the direction of a line is set apart from the text around it."""
    assert page.run("document.querySelectorAll('main script, main img, dialog script, dialog img, main b').length") == 0, what
    assert page.run("[...document.querySelectorAll('bdi')].every(b => b.childElementCount === 0)"), what
    assert page.run("""(() => { const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (all.nextNode()) if (all.currentNode.data.includes('\u202e') && !all.currentNode.parentElement.closest('bdi, code, pre, textarea')) return all.currentNode.parentElement.outerHTML;
        return null; })()""") is None, what
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), what


def hear(page):
    """Opens what is folded, and has pictures read aloud."""
    page.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.run("document.querySelectorAll('.plot').forEach(p => { p.focus(); p.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true })); })")


@pytest.fixture(scope="module")
def strangers(server):
    """Arms whose names are markup, turn lines or are long, in an experiment with metrics; and a catalogue that changes."""
    client = Client(server)
    client.put_tenant("odd", algorithm="random", experiment={"difference": 0.1, "baseline": HOSTILE[1]}, log_candidates=True, default_reward=None, reward_window_s=1, metrics=[{"name": HOSTILE[1], "role": "guardrail", "harm": 0.2}, {"name": HOSTILE[5]}],
                      challengers={"even": {"algorithm": "random"}}, routing={"holdout": {"share": 0.2, "baseline": {"arm": HOSTILE[1]}}})
    client.put_arms("odd", [{"id": a} for a in HOSTILE])
    for k in range(240):
        arm = client.select(HOSTILE[k % len(HOSTILE)], decision=f"{HOSTILE[0]}{k}", tenant="odd")["arm"]
        client.call("POST", "/reward", [{"decision": f"{HOSTILE[0]}{k}", "metric": m, "reward": float(arm == HOSTILE[1])} for m in (HOSTILE[1], HOSTILE[5])] + [{"decision": f"{HOSTILE[0]}{k}", "reward": k % 2}], tenant="odd")
    client.call("PATCH", "/tenants/odd", {"routing": {"holdout": {"share": 0.2, "baseline": {"arm": HOSTILE[5]}}}})
    client.call("PATCH", "/tenants/odd/arms", {"stop": [HOSTILE[1], HOSTILE[0]]})
    deadline = time.monotonic() + 30
    while client.call("GET", "/tenants/odd/stats").json["pending"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return client


@pytest.mark.parametrize("width", [1200, 320])
def test_names_are_text_in_experiments_and_on_rewards(strangers, page, width):
    page.size(width)
    for by in ("arm", "route", "version", "metric"):
        show(page, strangers.server, "t", "odd", "traffic", "auto", by)
        page.wait("document.getElementById('metrics') && document.getElementById('proved')")
        hear(page)
        assert_is_text(page, by)
    assert {(r["metric"], r["arm"]) for r in page.cells("metrics")} == {(m, a) for m in (HOSTILE[1], HOSTILE[5]) for a in HOSTILE}
    said = page.text("#metric-sentences")
    assert any(h in said for h in HOSTILE)
    if width == 1200:
        page.picture(PICTURES / "strangers-metrics.png")


@pytest.mark.parametrize("width", [1200, 320])
def test_names_are_text_in_an_evaluation(strangers, page, width):
    page.size(width)
    policies = [{"arm": a} for a in HOSTILE[:3]] + [{"name": HOSTILE[1], "configuration": {"algorithm": "ucb"}}]
    answer = strangers.call("POST", "/tenants/odd/evaluations", {"policies": ["logged", *policies]}, expect=(202, 400, 422))
    if answer.status != 202:  # a policy's own name may be of another kind: those of arms are anybody's
        answer = strangers.call("POST", "/tenants/odd/evaluations", {"policies": ["logged", *policies[:3]]}, expect=202)
    show(page, strangers.server, "t", "odd", "evaluation", answer.json["id"])
    page.wait("document.getElementById('job')?.dataset.state === 'done'", 60)
    hear(page)
    assert_is_text(page, "evaluation")
    assert {f"arm:{a}" for a in HOSTILE[:3]} <= {r["policy"] for r in page.cells("weights")}
    page.run("document.getElementById('drop').click()")
    page.wait("document.querySelector('dialog')")
    assert_is_text(page, "dialog")
    page.press("Escape")
    if width == 1200:
        page.picture(PICTURES / "strangers-evaluation.png")
    strangers.call("DELETE", f"/tenants/odd/evaluations/{answer.json['id']}", expect=204)


@pytest.mark.parametrize("width", [1200, 320])
def test_names_are_text_in_differences_of_configurations(strangers, page, width):
    page.size(width)
    show(page, strangers.server, "t", "odd", "audit")
    hear(page)
    page.wait("document.getElementById('trail')")
    assert_is_text(page, "audit")
    what = " ".join(r["what"] for r in page.cells("trail"))
    assert "/routing/holdout" in what and json.dumps(HOSTILE[5])[1:-1] in what and HOSTILE[0] in what
    if width == 1200:
        page.picture(PICTURES / "strangers-audit.png")


def test_labels_of_keys_and_the_dialogs_that_name_them(locked, page):
    admin = Client(locked, KEY)
    taken = []
    for label in HOSTILE:
        made = admin.call("POST", "/tenants/town/keys", {"roles": ["read"], "label": label}, expect=(201, 400))
        taken += [label] if made.status == 201 else []
    assert len(taken) >= 4
    page.goto(f"{locked.url}/console/#/t/town/audit")
    enter(page, KEY)
    page.wait("document.getElementById('keys')")
    assert sorted(r["label"] for r in page.cells("keys")) == sorted(taken)
    assert_is_text(page, "keys")
    page.run("document.querySelector('#keys button').click()")
    page.wait("document.querySelector('dialog')")
    assert_is_text(page, "revoke")
    page.press("Escape")
    admin.call("PATCH", "/tenants/town", {"challengers": {"odd-name_1": {"algorithm": "random"}}})
    show(page, locked, "t", "town", "challengers")
    page.wait("document.querySelector('#race button')")
    assert_is_text(page, "challengers")
    page.run("document.querySelector('#race button').click()")
    page.wait("document.querySelector('dialog')")
    assert "odd-name_1" in page.text("dialog")
    assert_is_text(page, "promote")
    page.press("Escape")


def test_names_of_challengers_are_letters(strangers):
    """Digits and a few marks, and letters: so the contract has it, and no other ones come to the page."""
    for odd in HOSTILE[:2]:
        strangers.call("PATCH", "/tenants/odd", {"challengers": {odd: {"algorithm": "random"}}}, expect=(400, 422))


# --- a shared log ---------------------------------------------------------------------------------------------------------------

# As servers that share a log answer: a header on answers of tenants, and 501 for what cannot be had there (u30_shared_log.py, tests/cluster/).
SHARED = """{ const own = window.fetch; window.asked = []; window.fetch = async (path, options) => {
    const method = options?.method ?? 'GET';
    window.asked.push(`${method} ${path}`);
    const refused = { type: '/problems/not-implemented', title: 'Not Implemented', status: 501, detail: 'keys made here: this cannot be done yet where several servers share a log (--log)' };
    if (method === 'POST' && String(path).endsWith('/keys')) return new Response(JSON.stringify(refused), { status: 501, headers: { 'Content-Type': 'application/problem+json' } });
    const answer = await own(path, options);
    if (!/^\\/tenants\\/./.test(String(path)) || String(options?.headers?.Accept).includes('event-stream')) return answer;
    return new Response(answer.status === 204 ? null : await answer.text(), { status: answer.status, headers: { ...Object.fromEntries(answer.headers), 'Laplaced-Seq': '7' } });
}; }"""


def test_what_a_shared_log_cannot_do_yet_is_said_before_anybody_clicks(locked, page):
    admin = Client(locked, KEY)
    admin.call("PATCH", "/tenants/town", {"challengers": {"even": {"algorithm": "random"}}})
    admin.call("POST", "/tenants/town/keys", {"roles": ["read"], "label": "x"}, expect=201)
    page.send("Page.addScriptToEvaluateOnNewDocument", {"source": SHARED})
    page.goto(f"{locked.url}/console/#/t/town/model")
    page.wait("document.getElementById('key-form')")
    page.run("document.querySelector('[name=short]').checked = true")
    enter(page, KEY)
    assert page.wait("document.getElementById('long-lived')?.innerText") == ("A key of eight hours is not to be had: keys made here: this cannot be done yet where several servers share a log (--log). "
                                                                           "The key itself is used.")
    page.wait("document.getElementById('verify')")  # which is to be had
    for screen, there, words in (("challengers", "#race", "a promotion and a rollback"), ("audit", "#keys", "make or revoke keys"), ("evaluation", "#kept", "An evaluation")):
        page.run(f"location.hash = '#/t/town/{screen}'")
        page.wait(f"document.querySelector('{there}')")
        assert words in page.text(".not-here") and "cannot be done yet where several servers share a log" in page.text(".not-here")
        assert not page.run("document.querySelector('#rollback, #make-key, #evaluate, #drop, [aria-label^=Promote], [aria-label^=Revoke]')"), screen
        page.picture(PICTURES / f"shared-{screen}.png")
    assert [a for a in page.run("window.asked") if not a.startswith("GET")] == ["POST /keys"]
    page.run("document.getElementById('forget').click()")
    page.wait("document.getElementById('key-form')")
    assert not page.run("document.getElementById('long-lived')")


def test_why_a_shorter_key_is_not_to_be_had_is_seen(locked, page):
    admin = Client(locked, KEY)
    key = admin.call("POST", "/tenants/town/keys", {"roles": ["read"]}, expect=201).json["key"]
    page.goto(f"{locked.url}/console/#/t/town/model")
    page.wait("document.getElementById('key-form')")
    page.run("document.querySelector('[name=short]').checked = true")
    enter(page, key)
    assert page.wait("document.getElementById('long-lived')?.innerText") == "A key of eight hours is not to be had: this key may make no keys. The key itself is used."
    assert page.run("sessionStorage.getItem('laplaced.key')") == key
    page.wait("document.getElementById('digest')")
    assert urllib.parse.unquote(page.run("location.hash")) == "#/t/town/model" and all("403" in f or "401" in f for f in page.failed)
