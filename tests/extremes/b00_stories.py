"""Stories of one tenant each, from a seed: a configuration at the ends of its ranges, extreme numbers in every body, and whatever
may be done to a tenant, in any order. In the end it is verified, moved, and opened by a new process."""
import random

from steps import Tenant
from values import Temper

N_STEPS = 30


def test_nothing_that_a_client_sends_hurts_the_server(judged, magnitude, seed):
    rng = random.Random(f"{seed} {magnitude}")
    judge = judged(magnitude, "--inline-work", rng.choice(("20000000", "0")))
    tenant = Tenant(judge, rng, Temper(rng, judge.largest, judge.bound is not None))
    tenant.put_graph()
    tenant.put_arms()
    for _ in range(N_STEPS):
        tenant.step()
    for last in (tenant.read, tenant.verify, tenant.move, tenant.die, tenant.verify):
        last()
        judge.witness()
    assert judge.n_witnessed > N_STEPS and judge.server.terminate() == 0, judge.story("the end")
