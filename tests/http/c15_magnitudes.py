"""Numbers that no model can compute with: refused by name before anything has changed, whoever sends them, and no reason for another tenant to wait."""
import json
import signal
import time

import pytest

from harness import NDJSON, Client, Server, tenant_path

HUGE = 1.7976931348623157e308
FORGETTING = [{"type": "none"}, {"type": "discount", "discount": 0.9}, {"type": "half_life", "half_life_s": 0.05}]


def seq(client, name):
    return client.model(name)["seq"]


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("magnitudes"))
    server.start()
    yield server
    server.close()


@pytest.mark.parametrize("forgetting", FORGETTING, ids=lambda f: f["type"])
def test_a_huge_reward_is_refused_and_the_server_goes_on(apart, forgetting):
    client, name = Client(apart), f"r-{forgetting['type'].replace('_', '-')}"
    client.put_tenant(name, algorithm="ucb", forgetting=forgetting)
    client.observe("u", "a", 1, tenant=name)
    decision = client.call("POST", "/select", {"user": "u", "candidates": ["a", "b"]}, tenant=name).json["decision"]
    before = seq(client, name)
    for reward in (HUGE, -HUGE, 1e200, 1.000001e12, -1.000001e12):
        refused = client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": reward}, tenant=name, expect=400)
        assert refused.pointers == ["/reward"] and "1000000000000" in refused.json["errors"][0]["detail"]
        assert client.call("POST", "/reward", {"decision": decision, "reward": reward}, tenant=name, expect=400).pointers == ["/reward"]
        several = [{"decision": decision, "reward": 1}, {"decision": decision, "reward": reward}]
        assert client.call("POST", "/reward", several, tenant=name, expect=400).pointers == ["/1/reward"]
    assert seq(client, name) == before
    for reward in (1e12, -1e12, 5e-324):
        client.observe("u", "a", reward, tenant=name)
    apart.restart()
    assert client.call("POST", tenant_path(name, "verify")).json["equal"]


def test_every_number_that_a_model_computes_with_has_its_pointer(apart):
    client = Client(apart)
    client.put_tenant("vectors", algorithm="lin-ucb", context_dim=2, arm_dim=1)
    for body, path, pointer in [
            ({"user": "u", "context": [0, 1e13], "arm": {"id": "a", "features": [1]}, "reward": 1}, "/observe", "/context/1"),
            ({"user": "u", "context": [0, 1], "arm": {"id": "a", "features": [-HUGE]}, "reward": 1}, "/observe", "/arm/features/0"),
            ({"user": "u", "context": [1e200, 0], "candidates": [{"id": "a", "features": [1]}]}, "/select", "/context/0"),
            ({"user": "u", "context": [1, 0], "candidates": [{"id": "a", "features": [1]}, {"id": "b", "features": [1e300]}]}, "/select",
             "/candidates/1/features/0")]:
        assert client.call("POST", path, body, tenant="vectors", expect=400).pointers == [pointer]
    put = client.call("PUT", tenant_path("vectors", "arms"), {"arms": [{"id": "a", "features": [1e13]}]}, expect=400)
    assert put.pointers == ["/arms/0/features/0"]
    put = client.call("PUT", tenant_path("vectors", "graph"), {"edges": [["u", "v", 1], ["u", "w", HUGE]]}, expect=400)
    assert put.pointers == ["/edges/1/2"]
    put = client.call("PUT", "/tenants/vectors", {"algorithm": "lin-ucb", "context_dim": 2, "arm_dim": 1, "default_reward": -1e13}, expect=400)
    assert put.pointers == ["/default_reward"]
    assert seq(client, "vectors") == 1


def test_what_one_tenant_sends_makes_neither_another_nor_the_server_wait(apart):
    """The review's: a context of 1e200 was learned, and from then on no write of the tenant came through, nor was the server ready."""
    client = Client(apart)
    client.put_tenant("culprit", algorithm="lin-ucb", context_dim=2)
    client.call("POST", "/observe", {"user": "u", "context": [1e200, 0], "arm": "a", "reward": 1}, tenant="culprit", expect=400)
    client.call("POST", "/observe", {"user": "u", "context": [1e12, 0], "arm": "a", "reward": 1e12}, tenant="culprit")
    client.call("DELETE", "/tenants/culprit/users/u")
    client.call("POST", "/observe", {"user": "v", "context": [1, 0], "arm": "a", "reward": 1}, tenant="culprit")
    assert client.call("GET", "/readyz").status == 200
    assert client.call("POST", "/tenants/culprit/verify").json["equal"]


def test_a_kernel_that_cannot_compute_with_a_vector_says_so(apart):
    client = Client(apart)
    client.put_tenant("eighth", algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "polynomial", "degree": 8})
    arm = {"id": "a", "features": [1e6]}
    for path, body, pointer in (("/observe", {"user": "u", "arm": arm, "reward": 1}, "/arm/features"),
                                ("/select", {"user": "u", "candidates": [arm]}, "/candidates/0/features")):
        refused = client.call("POST", path, body, tenant="eighth", expect=400)
        assert refused.pointers == [pointer] and "polynomial" in refused.json["errors"][0]["detail"]
    assert client.call("PUT", tenant_path("eighth", "arms"), {"arms": [arm]}, expect=400).pointers == ["/arms/0/features"]
    client.put_tenant("first", algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf"})
    client.call("POST", "/observe", {"user": "u", "arm": arm, "reward": 1}, tenant="first")
    client.call("PUT", "/tenants/first", {"algorithm": "gp-ucb", "arm_dim": 1, "arm_kernel": {"type": "polynomial", "degree": 8}}, expect=422)
    assert client.call("POST", "/tenants/first/verify").json["equal"]


def test_a_kernel_that_could_compute_with_no_vector_is_refused(apart):
    client = Client(apart)
    far = {"type": "polynomial", "degree": 8, "offset": 1e12}
    for settings, pointer in (({"arm_dim": 1, "arm_kernel": far}, "/arm_kernel/offset"), ({"context_dim": 1, "context_kernel": far}, "/context_kernel/offset"),
                              ({"arm_dim": 1, "challengers": {"far": {"algorithm": "gp-ucb", "arm_kernel": far}}}, "/challengers/far/arm_kernel/offset")):
        refused = client.call("PUT", "/tenants/far", {"algorithm": "gp-ucb", **settings}, expect=422)
        assert refused.pointers == [pointer] and "1e+60" in refused.json["detail"]
    client.call("GET", "/tenants/far", expect=404)


def test_a_graph_that_double_precision_cannot_solve_is_refused(apart):
    client = Client(apart)
    client.put_tenant("stiff", algorithm="lk-gp-ucb", user_kernel={"rho": 1e-12, "population": 0})
    refused = client.call("PUT", tenant_path("stiff", "graph"), {"edges": [["u", "v", 1e12], ["v", "w", 1e-3]]}, expect=422)
    assert "rho" in json.dumps(refused.json)
    client.call("PUT", tenant_path("stiff", "graph"), {"edges": [["u", "v", 1e-3]]})
    client.observe("u", "a", 1, tenant="stiff")
    client.call("PUT", "/tenants/stiff", {"algorithm": "lk-gp-ucb", "user_kernel": {"rho": 1, "population": 0}})
    client.call("PUT", tenant_path("stiff", "graph"), {"edges": [["u", "v", 1e12], ["v", "w", 1]]})
    client.call("PUT", "/tenants/stiff", {"algorithm": "lk-gp-ucb", "user_kernel": {"rho": 1e-12, "population": 0}}, expect=422)
    client.observe("v", "a", 1, tenant="stiff")
    assert client.call("POST", "/tenants/stiff/verify").json["equal"]


@pytest.mark.parametrize("discount", [{"type": "discount"}, {"type": "half_life", "half_life_s": 0.001}], ids=lambda f: f["type"])
def test_challengers_and_replays_meet_the_same_bounds(apart, discount):
    client, name = Client(apart), f"c-{discount['type'].replace('_', '-')}"
    client.put_tenant(name, algorithm="ts", challengers={"fading": {"algorithm": "ucb", "forgetting": discount}})
    for reward in (1, 1e12, -1e12):
        client.observe("u", "a", reward, tenant=name)
    client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": HUGE}, tenant=name, expect=400)
    lines = [{"type": "replay", "configuration": {"algorithm": "ucb", "forgetting": discount}},
             {"seq": 1, "type": "configured", "at": "2026-01-01T00:00:00.000Z", "version": 1,
              "configuration": client.call("GET", f"/tenants/{name}").json["configuration"]},
             *({"seq": 2 + i, "type": "observed", "at": "2026-01-01T00:00:01.000Z", "user": "u", "context": [], "arm": "a", "features": [], "reward": r}
               for i, r in enumerate((1, HUGE)))]
    answer = client.call("POST", tenant_path(name, "replay"), raw="\n".join(json.dumps(line) for line in lines).encode(), kind=NDJSON, expect=(200, 400))
    assert answer.status in (200, 400) and "1e+30" in answer.text
    assert client.call("GET", "/readyz").status == 200 and client.call("POST", f"/tenants/{name}/verify").json["equal"]


def test_an_import_with_a_line_that_no_model_takes_names_it_and_leaves_nothing(apart):
    client = Client(apart)
    client.put_tenant("source", algorithm="ucb", forgetting={"type": "discount"})
    client.observe("u", "a", 1, tenant="source")
    lines = client.call("GET", "/tenants/source/export").text.replace('"reward":1}', f'"reward":{HUGE!r}}}')
    refused = client.call("POST", "/tenants/target/import", raw=lines.encode(), kind=NDJSON, expect=400)
    assert "/1" in json.dumps(refused.json) and "1e+30" in json.dumps(refused.json)
    client.call("GET", "/tenants/target", expect=404)


def test_rewards_that_sum_up_to_too_much_name_their_place(tmp_path):
    server = Server(tmp_path, "--max-magnitude", "1e30").start()
    client = Client(server)
    client.put_tenant("sums", algorithm="ucb", aggregation="sum")
    decision = client.call("POST", "/select", {"user": "u", "candidates": ["a"]}, tenant="sums").json["decision"]
    reward = {"decision": decision, "reward": 1e30}
    client.call("POST", "/reward", reward, tenant="sums")
    refused = client.call("POST", "/reward", reward, tenant="sums", expect=400)
    assert refused.pointers == ["/reward"] and "sum" in refused.json["errors"][0]["detail"] and "1e+30" in refused.json["errors"][0]["detail"]
    told = client.call("POST", "/reward", [reward, {"decision": decision, "reward": -1e30}], tenant="sums").json
    assert told[0]["status"] == 400 and "sum" in told[0]["detail"] and told[1] == {"applied": True}, told
    assert client.verify("sums")["equal"]
    server.close()


def test_numbers_that_leave_no_room_for_others_are_refused(apart):
    """A log that has counted as far as its lines can hold was taken, and the tenant's next event, acknowledged, could not be read back."""
    client, most = Client(apart), 2**53 - 1
    client.put_tenant("counter", algorithm="ucb")
    client.observe("u", "a", 1, tenant="counter")
    plain = client.call("GET", "/tenants/counter/export").text
    assert client.call("POST", "/tenants/counter/compact", {"keep_events": 0}).json["compacted"] is False  # there is nothing to gain yet
    for _ in range(12):
        client.observe("u", "a", 1, tenant="counter")
    assert client.call("POST", "/tenants/counter/compact", {"keep_events": 0}).json["compacted"]
    short = client.call("GET", "/tenants/counter/export").text
    first = int(short[len('{"seq":'):short.index(",")])

    def taken(name, text, expect):
        return client.call("POST", f"/tenants/{name}/import", raw=text.encode(), kind=NDJSON, expect=expect)

    def numbered(text, far):
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            line["seq"] += far - first
            if line.get("part") == "points":
                line["event"] = [n + far - first for n in line["event"]]
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    for name, text, pointer in (("v", plain.replace('"version":1,', f'"version":{most},'), "/0/version"), ("w", short.replace('"version":1,', f'"version":{most},'), "/0/version"),
                                ("n", numbered(short, most - 20), "/0/seq")):
        assert taken(name, text, 400).pointers == [pointer]
        client.call("GET", f"/tenants/{name}", expect=404)
    for name, text in (("v", plain.replace('"version":1,', f'"version":{2**52},')), ("w", short.replace('"version":1,', f'"version":{2**52},')), ("n", numbered(short, 2**52))):
        taken(name, text, 201)
        client.put_tenant(name, algorithm="ucb", expect=200, reward_window_s=7)
        client.observe("u", "a", 1, tenant=name)
    apart.restart()
    for name in "vwn":
        assert client.call("GET", f"/tenants/{name}").json["configuration"]["reward_window_s"] == 7
        assert client.verify(name)["equal"]


def test_the_bound_is_an_option_and_live(tmp_path):
    file = tmp_path / "laplaced.conf"
    file.write_text("max-magnitude = 10\n")
    server = Server(tmp_path, "--config", str(file))
    server.start()
    client = Client(server)
    client.observe("u", "a", 10)
    assert client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 10.5}, expect=400).pointers == ["/reward"]
    file.write_text("max-magnitude = 1e30\n")
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 1e30}, expect=(200, 400)).status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert client.call("POST", "/observe", {"user": "u", "arm": "a", "reward": 1.1e30}, expect=400).pointers == ["/reward"]
    server.restart()
    assert client.call("POST", "/tenants/default/verify").json["equal"]
    server.close()
    for text in ("0", "0.5", "1e31", "nan", "inf", "-1", "1e400", "1k", "", " 1"):
        status, told = Server(tmp_path / "none", "--max-magnitude", text).run_to_end() if text else (2, "max-magnitude")
        assert status != 0 and "max-magnitude" in told and "Assertion" not in told


def test_what_is_promoted_or_rolled_back_to_must_compute_with_what_is_known(apart):
    client = Client(apart)
    eighth = {"algorithm": "gp-ucb", "arm_kernel": {"type": "polynomial", "degree": 8}}
    client.put_tenant("race", algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf"}, challengers={"eighth": eighth})
    client.call("POST", "/tenants/race/promote", {"challenger": "eighth"})
    client.call("POST", "/tenants/race/rollback", {})
    client.put_tenant("race", expect=200, algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "polynomial", "degree": 8}, challengers={"flat": {"algorithm": "gp-ucb", "arm_kernel": {"type": "rbf"}}})
    client.call("POST", "/tenants/race/promote", {"challenger": "flat"})
    client.observe("u", {"id": "a", "features": [1e6]}, 1, tenant="race")
    assert "1e+60" in json.dumps(client.call("POST", "/tenants/race/rollback", {}, expect=422).json)
    client.put_tenant("race", expect=200, algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf"}, challengers={"eighth": eighth})
    client.call("POST", "/tenants/race/promote", {"challenger": "eighth"}, expect=422)
    assert client.verify("race")["equal"]
