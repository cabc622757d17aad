#!/usr/bin/env python3
"""Writes env_ek_values.h: rounds of EK's three environments from numpy's own RandomState, the oracle of test_env_ek.c.

Written from the description of the environments (tools/paper/env_ek.c, header), vectorised and without the C code's
stream, cells or loops.

    /usr/bin/python3 tests/paper/env_ek.py        needs numpy; the tests read the recorded values only
"""
import pathlib

import numpy as np

AT = (0, 1, 2, 3, 1001)
fixed = np.random.RandomState(123)
ANCHORS = fixed.choice(np.arange(0, 1, 0.01), size=10, replace=False)
PEAK = ANCHORS[fixed.choice(10)]
X0, W0 = fixed.uniform(0, 1, size=5), fixed.uniform(-1, 1, size=5)
BOARD = {(1, 0): 1.0, (1, 2): 1.0, (3, 2): 1.0, (0, 1): 0.5, (2, 1): 0.5, (2, 3): 0.5}


def bump(x):
    return np.clip(1 - np.abs(ANCHORS - PEAK) - W0 @ (x - X0), 0, None)


def chessboard(x):
    edges = (0.25, 0.5, 0.75)
    return np.array([BOARD.get((int(np.digitize(x[0], edges)), int(k)), 0.0) for k in np.digitize(ANCHORS, edges)])


def step(x):
    above, below = np.abs(x - (ANCHORS + 0.15)) < 0.1, np.abs(x - (ANCHORS - 0.15)) < 0.1
    return np.where(above, 1.0, np.where(below, 0.5, 0.0))


def rounds(mean, dim, seed):
    """Rows x[0], the ten means, the reward's noise, the best reward (0 in round 0)."""
    r = np.random.RandomState(seed)
    for t in range(AT[-1] + 1):
        x = r.uniform(size=dim)
        means, noise = mean(x), r.normal(0, 0.1)
        best = r.normal(means.max() if mean is bump else 1.0, 0.1) if t > 0 else 0.0
        if t in AT:
            yield [x[0], *means, noise, best]


def main():
    out = ["/* Written by env_ek.py with numpy: do not edit. */\n", f"enum {{ N_AT = {len(AT)}, N_ROW = 13 }};\n",
           f"static const size_t at[N_AT] = {{{', '.join(map(str, AT))}}};\n",
           "static const double recorded[3][2][N_AT][N_ROW] = {"]
    for mean, dim in ((bump, 5), (chessboard, 1), (step, 1)):
        seeds = ("{" + ", ".join("{" + ", ".join(float(v).hex() for v in row) + "}" for row in rounds(mean, dim, s)) + "}" for s in (0, 2))
        out.append("{" + ", ".join(seeds) + "},")
    pathlib.Path(__file__).with_name("env_ek_values.h").write_text("".join(out) + "};\n")


if __name__ == "__main__":
    main()
