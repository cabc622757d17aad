"""The catalogue of arms."""
import threading

from contract import NDJSON
from harness import Client


def listed(api, name):
    return {a["id"]: a for a in api.call("GET", f"/tenants/{name}/arms").json["arms"]}


def test_the_catalogue_is_put_in_three_forms(api, name):
    arms = [{"id": "a", "features": [1, 2]}, {"id": "b", "features": [3, 4.5], "active": False}]
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=2)
    for body, kind in (({"arms": arms}, None), (arms, None), (arms, NDJSON)):
        api.put_arms(name, [])
        assert listed(api, name) == {}
        assert api.call("PUT", f"/tenants/{name}/arms", body, kind=kind).json == {"arms": 2, "active": 1}
        assert listed(api, name) == {"a": {"id": "a", "features": [1, 2], "active": True},
                                     "b": {"id": "b", "features": [3, 4.5], "active": False}}


def test_bare_ids_are_arms_without_features(api, name):
    api.put_tenant(name, algorithm="ucb")
    assert api.call("PUT", f"/tenants/{name}/arms", ["x", "y", {"id": "z", "active": False}]).json == {"arms": 3, "active": 2}
    assert {i: a["active"] for i, a in listed(api, name).items()} == {"x": True, "y": True, "z": False}
    ranking = api.select("u", explain=True, tenant=name)["ranking"]
    assert {r["arm"] for r in ranking} == {"x", "y"}


def test_a_patch_puts_by_id_and_removes(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=1)
    api.put_arms(name, [{"id": i, "features": [0.5]} for i in "abc"])
    got = api.call("PATCH", f"/tenants/{name}/arms",
                   {"arms": [{"id": "a", "features": [9]}, {"id": "d", "features": [1], "active": False}], "remove": ["b"]}).json
    assert got == {"arms": 3, "active": 2}
    arms = listed(api, name)
    assert set(arms) == {"a", "c", "d"} and arms["a"]["features"] == [9] and arms["c"]["features"] == [0.5]


def test_removing_an_arm_that_is_not_there_changes_nothing(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, ["a", "b"])
    digest = api.digest(name)
    api.call("PATCH", f"/tenants/{name}/arms", {"arms": ["c"], "remove": ["nope"]}, expect=409)
    assert set(listed(api, name)) == {"a", "b"} and api.digest(name) == digest


def test_an_inactive_arm_is_not_offered_but_may_be_asked_for_by_name(api, name):
    api.put_tenant(name, algorithm="ucb")
    api.put_arms(name, ["a", {"id": "off", "active": False}])
    assert api.select("u", tenant=name)["arm"] == "a"
    assert {r["arm"] for r in api.select("u", candidates=["off"], tenant=name)["ranking"]} == {"off"}


def test_what_an_arm_taught_stays_when_its_features_change(api, name):
    api.put_tenant(name, algorithm="gp-ucb", arm_dim=1, arm_kernel={"type": "rbf", "lengthscale": 0.1})
    api.put_arms(name, [{"id": "a", "features": [0]}, {"id": "b", "features": [5]}])
    for _ in range(5):
        api.observe("u", "a", 1.0, tenant=name)
    api.put_arms(name, [{"id": "a", "features": [5]}, {"id": "b", "features": [0]}])
    mean = {r["arm"]: r["mean"] for r in api.select("u", explain=True, dry_run=True, tenant=name)["ranking"]}
    assert mean["b"] > 0.5 and abs(mean["a"]) < 1e-6


def test_a_large_catalogue_is_shown_as_it_stood_at_one_moment(boot):
    """It is written piece by piece beside changes; no answer mixes two catalogues."""
    server = boot()
    client = Client(server)
    client.put_tenant("t", algorithm="ucb", arm_dim=1)
    sets = [[{"id": f"{'ab'[k]}{i}", "features": [k + i / 4], "active": True} for i in range(1500)] for k in range(2)]
    client.put_arms("t", sets[0])
    assert client.call("GET", "/tenants/t/arms").json["arms"] == sets[0]
    stop = threading.Event()

    def change():
        mine, k = Client(server), 1
        while not stop.is_set():
            mine.put_arms("t", sets[k])
            k = 1 - k

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(25):
            assert client.call("GET", "/tenants/t/arms").json["arms"] in sets
    finally:
        stop.set()
        thread.join()
