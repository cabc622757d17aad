"""Pictures of the console for docs/figures, of a tenant that has learned what real people listen to over their friendships:

    make console-pictures DATA=DIR        # a folder as docs/DATA.md has it: *edges*.csv, *genres*.json

`laplacectl demo --data` plays one tenant. Another one is played here, over the same people and their likes: an experiment of four genres
with a holdout, two metrics and two challengers. Both run on a server of their own, which ends with the pictures."""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from browser import Browser  # noqa: E402
from contract import ROOT  # noqa: E402
from harness import CTL, Client, Server  # noqa: E402

GENRES = ["Dance", "Rap/Hip Hop", "Electro", "Rock"]
METRICS = [{"name": "friends", "role": "guardrail", "harm": 0.1}, {"name": "wide taste", "range": [0, 20]}]


def people(folder, n=600):
    """A ball of n people with friends, from the first who has 20: their friendships and their likes."""
    likes = json.loads(next(pathlib.Path(folder).glob("*genres*.json")).read_text())
    friends = collections.defaultdict(list)
    for line in next(pathlib.Path(folder).glob("*edges*.csv")).read_text().splitlines():
        u, v = line.split(",")[:2]
        if u.isdigit():
            friends[u].append(v)
            friends[v].append(u)
    ball = [next(u for u in friends if len(friends[u]) >= 20)]
    for u in ball:
        ball += [v for v in friends[u] if v not in ball][:max(0, n - len(ball))]
        if len(ball) >= n:
            break
    inside = set(ball)
    return ball, [(u, v, 1) for u in ball for v in friends[u] if v in inside and u < v], {u: set(likes.get(u, ())) for u in ball}, friends


def play_experiment(client, folder, rounds):
    """What a genre earns is whether its listener likes it; `friends` is the share of their friends who do."""
    ball, edges, likes, friends = people(folder)
    rng = random.Random(1)
    client.put_tenant("four-genres", algorithm="laplaced", log_candidates=True, default_reward=None, experiment={"difference": 0.05, "baseline": "Dance"}, metrics=METRICS, rule={"epsilon": 0.3}, reward_window_s=2,
                      routing={"holdout": {"share": 0.2, "baseline": {"arm": "Dance"}}}, challengers={"even": {"algorithm": "random"}, "crowd": {"algorithm": "ts"}}, guardrail={"baseline": "even"})
    client.put_graph("four-genres", edges)
    client.put_arms("four-genres", [{"id": g} for g in GENRES])
    for k in range(rounds):
        user = rng.choice(ball)
        arm = client.select(user, decision=f"play-{k}", tenant="four-genres")["arm"]
        near = [v for v in friends[user] if v in likes]
        told = [{"decision": f"play-{k}", "metric": "friends", "reward": sum(arm in likes[v] for v in near) / max(1, len(near))},
                {"decision": f"play-{k}", "metric": "wide taste", "reward": min(20, len(likes[user]))}, {"decision": f"play-{k}", "reward": int(arm in likes[user])}]
        client.call("POST", "/reward", told, tenant="four-genres")
        if k == rounds // 6:
            client.call("PATCH", "/tenants/four-genres", {"rule": {"epsilon": 0.25}})


def screens(client):
    """Each screen by the name of its picture: the address, and what must be there before the picture is taken."""
    demo = "demo-laplaced"
    busiest = collections.Counter(e["user"] for e in client.events(demo, limit=4000) if e["type"] == "decided").most_common(1)[0][0]
    often = [u for u, _ in collections.Counter(e["user"] for e in client.events("four-genres", limit=4000) if e["type"] == "decided").most_common(12)]
    means = client.call("POST", "/tenants/four-genres/posterior", {"users": often, "arms": GENRES}).json["mean"]
    listener = max(zip(often, means), key=lambda one: max(one[1]) - min(one[1]))[0]  # whose taste the model knows best
    made = client.call("POST", "/tenants/four-genres/evaluations", {"policies": ["logged", "uniform", {"arm": "Rock"}]}, expect=202).json
    return {
        "overview": ((), "document.querySelector('[data-of=rate]') && document.querySelector('#tenants polyline')"),
        "rewards": (("t", "four-genres", "traffic"), "document.querySelectorAll('.plot svg').length > 1"),
        "decision": (("t", "four-genres", "decision", "now", listener), "document.querySelector('#taught tbody tr')"),
        "neighbours": (("t", demo, "neighbours", busiest, "2"), "document.querySelector('canvas.graph')?.dataset.rest && document.querySelector('#taught tbody tr')"),
        "challengers": (("t", "four-genres", "challengers"), "document.querySelectorAll('.plot svg').length"),
        "model": (("t", demo, "model"), "document.getElementById('digest')"),
        "evaluation": (("t", "four-genres", "evaluation", made["id"]), "document.getElementById('job')?.dataset.state === 'done'"),
        "audit": (("t", "four-genres", "audit"), "document.getElementById('trail')"),
    }


def take(client, url, out, kinds):
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            for kind, (width, scheme, is_whole) in kinds.items():
                page = browser.page(width, 760)
                page.media(prefers_color_scheme=scheme)
                for name, (parts, there) in screens(client).items():
                    page.goto("about:blank")
                    page.goto(f"{url}/console/#/" + "/".join(urllib.parse.quote(p, safe="") for p in parts))
                    page.wait("document.querySelector('main h1') && !document.querySelector('main .loading')")
                    page.wait(there, 60)
                    page.picture(out / f"console-{name}{kind}.png", is_whole)
                assert page.faults == [] and page.violations() == [], page.faults
                page.close()
        finally:
            browser.close()


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("data")
    ask.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/figures")
    ask.add_argument("--rounds", type=int, default=4000)
    ask.add_argument("--all", action="store_true", help="also the dark scheme, 320 pixels, and whole pages")
    ask.add_argument("--server", help="a server that has played before")
    told = ask.parse_args()
    kinds = {"": (1000, "light", False)}
    if told.all:
        kinds = {"": (1100, "light", True), "-dark": (1100, "dark", True), "-narrow": (320, "light", True)}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "--finish-builds").start() if not told.server else None
        try:
            url = told.server or server.url
            client = Client(server or argparse.Namespace(url=url, cacert=None))
            if server:
                subprocess.run([CTL, "--server", url, "demo", "--data", told.data, "--rare", "--users", "1500", "--rounds", str(told.rounds), "--quiet"], check=True)
                play_experiment(client, told.data, told.rounds)
            take(client, url, told.out, kinds)
        finally:
            if server:
                server.close()


if __name__ == "__main__":
    main()
