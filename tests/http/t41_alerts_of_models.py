"""Alerts of what models and challengers go through, and of a disk's trend: each fires when its fault is there, and is silent before and when it is mended (prometheus.py)."""
import random
import time

from contract import NDJSON
from harness import Client, Server, encode, free_port
from o00_verify import on_file
from prometheus import NEEDED, OF_MODELS, Meanwhile, asked_for, several, small_disk, watched  # noqa: F401 (fixtures)

pytestmark = NEEDED
# A kernel of some 1e8 beside a noise of 1e-12: of each further point rounding leaves nothing.
UNSCALED = {"algorithm": "gp-ucb", "tune": False, "arm_dim": 1, "arm_kernel": {"type": "linear"}}
CONTEXT_DIM, BEHIND, MORE = 8, 100_000, 140_000
# A dictionary of some thousand points, which each line takes a pass over: some hundred lines in a second.
CHEAP, SLOW = {"algorithm": "ts", "tune": False}, {
    "algorithm": "laplaced-kors", "tune": False, "context_kernel": {"type": "rbf", "lengthscale": 0.5}, "representation": {"lambda": 1e-3, "max_dictionary": 2048}}


def verified(api):
    return api.verify("t")["equal"]


def observe_at(api, tenant, i):
    """An arm whose feature nobody has scaled."""
    api.observe("u", {"id": "a", "features": [10_000 + i / 7]}, i % 2, tenant=tenant)


def clamps(prometheus, tenant):
    return [float(r["value"][1]) for r in prometheus.ask(f'laplaced_model_clamps{{tenant="{tenant}"}}')]


class Crowd:
    """Lines for a tenant's log, ten thousand at a time: the same ones, which are held to the contract once."""

    def __init__(self, api, tenant):
        rng = random.Random(7)
        self.api, self.tenant, self.n = api, tenant, 10_000
        self.lines = [{"user": f"u{rng.randrange(99)}", "context": [round(rng.random(), 3) for _ in range(CONTEXT_DIM)], "arm": "a", "reward": i % 2} for i in range(self.n)]
        self.body = encode(self.lines, None, NDJSON)[0]
        api.call("POST", "/observe", self.lines, kind=NDJSON, tenant=tenant)

    def write(self):
        answer = self.api.session.post(f"{self.api.server.url}/observe", data=self.body, headers={"Content-Type": NDJSON, "Laplaced-Tenant": self.tenant}, timeout=120)
        assert answer.status_code == 200, answer.text[:300]
        self.n += len(self.lines)

    def lag(self):
        return max(c["lag"] for c in self.api.call("GET", f"/tenants/{self.tenant}/challengers").json["challengers"])


class Filler:
    """A file that grows."""

    def __init__(self, path, most):
        self.path, self.most, self.step = path, most, 1 << 10

    def grow(self):
        with open(self.path, "ab") as file:
            if file.tell() < self.most:
                file.write(bytes(self.step))
        time.sleep(0.5)


@asked_for
def test_alerts_of_models_challengers_and_a_disks_trend_fire_and_fall_silent(several, watched, small_disk):  # noqa: F811
    differs, losing, behind = (several(name) for name in ("differs", "losing", "behind"))
    disk = Server(small_disk.parent, listen=f"127.0.0.1:{free_port()}")
    filler = Filler(small_disk / "filler", 40 << 20)
    meanwhile = []
    try:
        disk.start()
        servers = {"differs": differs, "losing": losing, "behind": behind, "filling": disk}
        machines = {("LaplacedDiskFilling", name) for name in servers if name != "filling"}  # others fill that disk
        prometheus = watched(servers)
        api = {name: Client(server) for name, server in servers.items()}

        # All is well: a model that equals its log, points of a sane noise, challengers that keep up with a hundred thousand lines, a disk that lasts for a day.
        api["differs"].put_tenant("t", algorithm="ucb", tune=False)
        for i in range(10):
            api["differs"].observe(f"u{i}", "a", i / 8, tenant="t")
        assert verified(api["differs"])
        for name, ridge in (("unscaled", 1e-12), ("calm", 1)):
            api["losing"].put_tenant(name, **UNSCALED, representation={"type": "exact", "lambda": ridge})
        api["behind"].put_tenant("t", algorithm="ucb", tune=False, context_dim=CONTEXT_DIM, durability="relaxed", challengers={"cheap": CHEAP})
        crowd = Crowd(api["behind"], "t")
        while crowd.n < MORE:
            crowd.write()
        prometheus.until(lambda: crowd.lag() == 0, "a cheap challenger keeps up")
        meanwhile.append(Meanwhile(filler.grow))
        well = time.monotonic() + 40
        while time.monotonic() < well:
            observe_at(api["losing"], "calm", 1000 * (well - time.monotonic()))
            assert verified(api["differs"]) and prometheus.alerts() <= machines, prometheus.alerts()
            time.sleep(0.5)

        on_file(differs, "t", "UPDATE events SET text = replace(text, '\"reward\":0.5}', '\"reward\":0.25}'), reward = 0.25 WHERE text LIKE '%\"reward\":0.5}%'")
        api["behind"].call("PATCH", "/tenants/t", {"challengers": {"slow": SLOW}})  # LaplacedChallengersBehind
        filler.step = 200 << 10                               # LaplacedDiskFilling: nothing is left in three minutes
        n = 0
        def go_on():
            nonlocal n
            n += 1
            assert not verified(api["differs"])               # LaplacedVerificationDiffers
            observe_at(api["losing"], "unscaled", n)          # LaplacedModelLosingDigits
            observe_at(api["losing"], "calm", n)
            if crowd.lag() < MORE:
                crowd.write()
        wanted = {("LaplacedVerificationDiffers", "differs"), ("LaplacedModelLosingDigits", "losing"), ("LaplacedChallengersBehind", "behind"), ("LaplacedDiskFilling", "filling")}
        assert {name for name, _ in wanted} == OF_MODELS | {"LaplacedDiskFilling"}
        prometheus.fires(wanted, machines, 240, go_on)
        # By its trend, and only the tenant that loses digits.
        assert prometheus.ask('laplaced_data_free_bytes{instance="filling"} > 0.2 * laplaced_data_size_bytes')
        assert max(clamps(prometheus, "unscaled")) > n / 2 and clamps(prometheus, "calm") == [0]
        assert {r["metric"]["tenant"] for r in prometheus.ask('ALERTS{alertname="LaplacedModelLosingDigits"}')} == {"unscaled"}

        # Each as the alert's text says.
        differs.terminate()
        differs.args.append("--verify")
        differs.start()
        assert verified(api["differs"])
        api["losing"].call("PATCH", "/tenants/unscaled", {"representation": {"lambda": 1}})
        api["losing"].wait_rebuilt("unscaled")
        api["behind"].call("PATCH", "/tenants/t", {"challengers": {"slow": None}})
        meanwhile.pop().end()
        filler.path.unlink()
        for i in range(20):
            observe_at(api["losing"], "unscaled", n + i)
        prometheus.falls_silent(machines)
        assert clamps(prometheus, "unscaled") == [0] and crowd.lag() < BEHIND
    finally:
        for one in meanwhile:
            one.end()
        disk.close()
