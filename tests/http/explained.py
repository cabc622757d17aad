"""Decisions that explain themselves, for tests of rules: what is taught, what is told, and its columns."""
import numpy as np


def ranking(api, name, candidates, **fields):
    """The arms of a dry decision, in the order of the candidates."""
    answer = api.select("u", candidates=candidates, explain=True, dry_run=True, tenant=name, **fields)
    return sorted(answer["ranking"], key=lambda r: candidates.index(r["arm"]))


def teach(api, name, rng, candidates, rounds):
    for t in range(rounds):
        api.observe("u", candidates[rng.integers(len(candidates))], float(rng.normal()), tenant=name)


def of(rows, field):
    return np.array([r[field] for r in rows])
