#!/usr/bin/env python3
"""Solves the cone program of TC eq. 10 as it stands, and records its optima in cmm_cone.json: the oracle of rule `cmm`.

    maximise  f(s)   subject to   |f_t - y|^2 <= R^2,   |f|^2 <= B^2          over f in the kernel's space

By the representer theorem f = sum_i v_i q_i for an orthonormal basis q of the span of the points and s: the columns of
a Cholesky factor L of their Gram matrix are the values of q there, so f at the points is L v and |f| = |v|. Solved by
SLSQP from several starts and polished; the program is convex, so any local optimum is the optimum. The dual, the
eigendecomposition and the ridge, which the server uses, do not occur (R is TC eq. 8, one solve).

    /usr/bin/python3 tests/golden/cmm_cone.py        needs scipy; the tests read the recorded values only
"""
import json
import math
import pathlib

import numpy as np
from scipy.optimize import minimize


def gram(x, z, lengthscale):
    return np.exp(-0.5 * ((x[:, None] - z[None, :]) ** 2).sum(axis=2) / lengthscale ** 2)


def radius_sq(k, y, noise, delta):
    n, a = len(y), noise ** 2
    energy = y @ np.linalg.solve(k + a * np.eye(n), y)
    return a * energy + a * np.linalg.slogdet(np.eye(n) + k / a)[1] + 2 * a * math.log(1 / delta)


def optimum(case, s, sign):
    """max of sign * f(s)."""
    x, y, b = np.array(case["x"]), np.array(case["y"]), case["norm_bound"]
    r_sq = radius_sq(gram(x, x, case["lengthscale"]), y, case["noise"], case["delta"])
    points = np.vstack([x, s])
    e, q = np.linalg.eigh(gram(points, points, case["lengthscale"]))
    values = q * np.sqrt(np.maximum(e, 0))  # a square root of the Gram matrix serves as well as its Cholesky factor
    at, goal = values[:-1], sign * values[-1]
    inside = [{"type": "ineq", "fun": lambda v: 1 - ((at @ v - y) ** 2).sum() / r_sq, "jac": lambda v: -2 * at.T @ (at @ v - y) / r_sq},
              {"type": "ineq", "fun": lambda v: 1 - v @ v / b ** 2, "jac": lambda v: -2 * v / b ** 2}]
    start = np.linalg.solve(at.T @ at + case["noise"] ** 2 * np.eye(len(points)), at.T @ y)
    best = None
    for scale in (1.0, 0.5, 0.9):
        done = minimize(lambda v: -goal @ v, scale * start, jac=lambda v: -goal, constraints=inside, method="SLSQP",
                        options={"ftol": 1e-15, "maxiter": 2000})
        feasible = min(c["fun"](done.x) for c in inside) > -1e-9
        if feasible and (best is None or -done.fun > best):
            best = -done.fun
    assert best is not None
    return sign * best


def main():
    rng = np.random.default_rng(10)
    cases = []
    for t, lengthscale, b in ((1, 0.5, 2.0), (4, 0.5, 2.0), (8, 0.3, 5.0), (12, 0.4, 3.0), (20, 0.3, 4.0)):
        x = rng.uniform(size=(t, 2)).round(3)
        if t > 6:
            x[-3:] = x[:3]  # repeats
        y = (np.sin(4 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=t)).round(4)
        query = np.vstack([rng.uniform(size=(4, 2)).round(3), x[:1]])
        case = {"lengthscale": lengthscale, "norm_bound": b, "noise": 0.1, "delta": 0.05, "x": x.tolist(), "y": y.tolist(),
                "query": query.tolist()}
        case["lower"] = [optimum(case, s, -1) for s in query]
        case["upper"] = [optimum(case, s, 1) for s in query]
        cases.append(case)
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
