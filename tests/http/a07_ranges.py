"""docs/RANGES.md: the page is current, every number of a body has two ends, and the server takes what lies inside and names what does not."""
import json
import math
import subprocess
import sys

import pytest

from bodies import KINDS, PREFIX, examples, is_fine
from contract import CONTRACT, NDJSON, ROOT
from harness import BIN, Client, Server

sys.path.insert(0, str(ROOT / "tools"))
import ranges  # noqa: E402

KEY, MARK = "a-key-for-these-tests-0123", "@number@"
BAD_TOKENS = ("NaN", "Infinity", "-Infinity", "inf", "1e309", "-1e309", "0x10", "00", "01", "1.", ".5", "+1", "1e", "--1", "1_000")
TOKENS = ("1e-324", "5e-324", "1.7976931348623157e308", "-1.7976931348623157e308", "-0.0", "9007199254740992", "9007199254740993", "9223372036854775808",
          "18446744073709551616", "1e22", "1" + "0" * 399, '"1"', "true", "null", "[]", "{}")
BODIES = {name: found for name, found in ranges.bodies().items() if found}
SELF_CHANGING = ("limits", "settings")  # bodies whose tenant would treat others otherwise
MAX = 1e12  # of --max-magnitude


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    (folder / "keys").write_text(KEY + "\n")
    server = Server(folder, "--admin-key-file", str(folder / "keys")).start()
    client = Client(server, KEY)
    for tenant in ("t", *SELF_CHANGING):
        client.put_tenant(tenant, algorithm="laplaced-kors", context_dim=2, arm_dim=3)
    yield client
    assert server.terminate() == 0
    server.close()


def test_the_page_is_what_the_script_writes():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "ranges.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", BODIES)
def test_every_number_of_a_body_has_two_ends(name):
    assert not [r.place for r in BODIES[name] if not r.is_magnitude and None in (r.lo, r.hi)]


def test_every_parameter_and_option_has_two_ends():
    found = [r for _, r in ranges.parameters()] + list(ranges.options().values())
    assert len(found) > 30 and not [r.place for r in found if None in (r.lo, r.hi)]


# ---- bodies -----------------------------------------------------------------------------------------------------------

def is_place(pointer, template):
    steps, wanted = pointer.split("/"), template.split("/")
    return len(steps) == len(wanted) and all(w in ("*", "<name>") or s == w for s, w in zip(steps, wanted))


def places(value, path=()):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def pointer_of(path):
    return "".join("/" + str(k).replace("~", "~0").replace("/", "~1") for k in path)


def first_place(name, r):
    """(a good body with the number, its path). A list of several kinds of items is tried with one of each kind alone, too."""
    whole = examples({"$ref": PREFIX + KINDS[name]})
    for body in [*whole, *([one] for one in whole if isinstance(one, dict))]:
        for path in places(body):
            if is_place(pointer_of(path), r.place):
                return body, path
    raise AssertionError(f"no example of {name} has {r.place}")


def text_with(body, path, token):
    whole = json.loads(json.dumps(body))
    at = whole
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = MARK
    return json.dumps(whole).replace(f'"{MARK}"', token)


def beside(r):
    """Tokens at and beyond each end that the server has in force."""
    step = (lambda x, way: x + way) if r.kind == "integer" else lambda x, way: math.nextafter(x, way * math.inf)
    lo, hi = (max(r.lo, -MAX) if r.lo is not None else -MAX, min(r.hi, MAX) if r.hi is not None else MAX) if r.is_magnitude else (r.lo, r.hi)
    yield from (repr(x) for x in (lo, step(lo, -1), step(lo, 1), hi, step(hi, 1), step(hi, -1)))


def is_inside(name, body, path, token):
    """By the schema, and by the option."""
    value = json.loads(token)
    if isinstance(value, float) and not math.isfinite(value) or isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1.7e308:
        return False
    r = next(r for r in BODIES[name] if is_place(pointer_of(path), r.place))
    if r.is_magnitude and isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > MAX:
        return False
    return is_fine(name, json.loads(text_with(body, path, token)))


@pytest.mark.parametrize("name", BODIES)
def test_numbers_at_their_ends_are_taken_or_named(keyed, name):
    method, path_template = ranges.ROUTES[name]
    path, kind = path_template.replace("{tenant}", name if name in SELF_CHANGING else "t"), NDJSON if name == "replay" else "application/json"
    for r in BODIES[name]:
        body, path_of = first_place(name, r)
        wanted = pointer_of(path_of)
        for token in (*beside(r), *TOKENS, *BAD_TOKENS):
            answer = keyed.session.request(method, keyed.server.url + path, data=text_with(body, path_of, token), timeout=60,
                                           headers={"Content-Type": kind, "Authorization": f"Bearer {KEY}", "Laplaced-Tenant": "t"})
            told = answer.json() if answer.content else {}
            shown = (name, wanted, token[:40], answer.status_code, answer.text[:400])
            named = [e["pointer"] for e in told.get("errors", [])] if isinstance(told, dict) else []
            assert answer.status_code < 500, shown
            if token in BAD_TOKENS:
                assert answer.status_code == 400 and named, shown
            elif is_inside(name, body, path_of, token):
                assert answer.status_code != 400 or wanted not in named, shown
            else:
                assert answer.status_code == 400 and any(p == wanted or p == "/0" + wanted or wanted.startswith(p) for p in named), shown


# ---- parameters and options -------------------------------------------------------------------------------------------

TEXTS = ("", "-1", "+1", "1.", ".5", "1e3", "0x10", " 1", "1 ", "1,0", "NaN", "inf", "-0", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1" + "0" * 399, "one")


@pytest.mark.parametrize("where, r", list(ranges.parameters()))
def test_parameters_at_their_ends_are_taken_or_named(keyed, where, r):
    path = where.split()[1].replace("{tenant}", "t")
    asked = CONTRACT.required(CONTRACT.find("GET", path)[0])
    texts = [(str(r.lo), True), (str(r.hi), True), (str(r.lo - 1), False), (str(r.hi + 1), False)] + [(t, None) for t in TEXTS]
    for text, is_good in texts:
        if is_good is None:
            is_good = text.isascii() and text.isdigit() and r.lo <= int(text) <= r.hi
        answer = keyed.call("GET", path, query={**asked, r.place: text}, expect=(200, 400))
        assert answer.status == (200 if is_good else 400), (r.place, text)
        assert is_good or r.place in answer.json["detail"], answer.text


# The ends of some options are reached beside others alone.
BESIDE = {"max-bulk-body": ["--max-body-memory=1125899906842624"], "max-observe-body": ["--max-body-memory=1125899906842624"],
          "max-body-memory": ["--max-body=1024", "--max-observe-body=1024", "--max-bulk-body=1024"]}


def check(*args, env=None):
    return subprocess.run([BIN, "--check-config", *args], capture_output=True, text=True, timeout=30, env=env)


@pytest.mark.parametrize("name, r", ranges.options().items(), ids=ranges.options())
def test_options_at_their_ends_are_taken_or_named(name, r, tmp_path):
    variable = "LAPLACED_" + name.upper().replace("-", "_")
    exact = str if r.kind != "number" else repr
    for value in (r.lo, r.hi):
        done = check(*BESIDE.get(name, []), f"--{name}={exact(value)}")
        assert done.returncode == 0 and f"\n{name} = " in done.stdout, (name, value, done.stderr)
    outside = [exact(math.nextafter(x, w * math.inf) if r.kind == "number" else x + w) for x, w in ((r.lo, -1), (r.hi, 1))]
    texts = outside + [t for t in TEXTS if not (r.kind == "number" and t in ("1e3", "1."))]
    for text in texts:
        if text.isascii() and text.isdigit() and r.lo <= int(text) <= r.hi:
            continue
        done = check(f"--{name}={text}")
        assert 0 < done.returncode < 126 and f"--{name}" in done.stderr, (name, text[:40], done.returncode, done.stderr)
    done = check(env={variable: outside[1]})
    assert 0 < done.returncode < 126 and variable in done.stderr
    (tmp_path / "conf").write_text(f"{name} = {outside[1]}\n")
    done = check("--config", str(tmp_path / "conf"))
    assert 0 < done.returncode < 126 and name in done.stderr and "conf:1" in done.stderr
