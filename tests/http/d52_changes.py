"""Changes of what arms earn: an alarm is a line of the log, the model tells it, and folds, restarts and compactions know it."""
import random

from harness import Server

ARMS = ["a", "b"]
RATES = ({"a": 0.7, "b": 0.4}, {"a": 0.1, "b": 0.4})


def play(api, name, n, rates, seed):
    draw = random.Random(seed)
    rows = [{"user": "u%d" % (i % 3), "arm": ARMS[i % 2], "reward": float(draw.random() < rates[ARMS[i % 2]]), "propensity": 0.5} for i in range(n)]
    for at in range(0, n, 10):
        for row in rows[at:at + 10]:
            api.call("POST", "/observe", row, tenant=name)


def changes(api, name):
    return [e for e in api.events(name) if e["type"] == "changed"]


def test_an_alarm_is_a_line_that_every_fold_knows(tmp_path):
    with Server(tmp_path) as server:
        api = server.client
        for name, forgetting in (("t", {"type": "discount"}), ("deaf", {"type": "discount", "detect_changes": False}), ("plain", {"type": "none"})):
            api.put_tenant(name, forgetting=forgetting)
            api.put_arms(name, ARMS)
            play(api, name, 200, RATES[0], 1)
            assert changes(api, name) == [] and "changes" not in api.model(name)
            play(api, name, 200, RATES[1], 2)
        assert changes(api, "deaf") == [] and changes(api, "plain") == []
        lines = changes(api, "t")
        assert lines and lines[0]["arm"] == "a" and lines[0]["left"] == 0.001
        told = api.model("t")["changes"]
        assert (told["count"], told["last"]) == (len(lines), lines[-1]["seq"]) and str(told["last"]) in told["words"]
        assert api.call("POST", "/tenants/t/verify").json["equal"]
        digest = api.model("t")["digest"]
        server.kill()
        server.start()
        assert api.model("t")["digest"] == digest
        api.call("POST", "/tenants/t/compact", {"before": lines[-1]["seq"] + 1}, expect=(200, 422))
        assert api.call("POST", "/tenants/t/verify").json["equal"]
        assert api.model("t")["changes"]["count"] == len(lines)
