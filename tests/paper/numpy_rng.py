#!/usr/bin/env python3
"""Writes numpy_rng_values.h: what numpy's legacy RandomState gives, the oracle of test_numpy_rng.c.

    /usr/bin/python3 tests/paper/numpy_rng.py        needs numpy; the tests read the recorded values only
"""
import pathlib

import numpy as np

SEEDS = (0, 1, 123, 2**32 - 1)


def mixed(r):
    """Draws of all kinds in turn: a uniform between two normals must not take the second normal's place."""
    out = []
    for _ in range(300):
        out += [r.uniform(-1, 3), r.normal(0.5, 0.1), float(r.randint(10)), r.normal(0, 1), r.random_sample()]
    return out


def row(kind, name, values, text):
    return f"static const {kind} {name}[] = {{{', '.join(text(v) for v in values)}}};\n"


def main():
    out = ["/* Written by numpy_rng.py with numpy: do not edit. */\n", row("uint32_t", "seeds", SEEDS, lambda v: f"{v}u")]
    for i, seed in enumerate(SEEDS):
        word = [int(np.random.RandomState(seed).randint(0, 2**32, 2000, dtype=np.uint32)[k]) for k in (0, 1, 623, 624, 1999)]
        out.append(row("uint32_t", f"words_{i}", word, lambda v: f"{v}u"))
        out.append(row("double", f"mixed_{i}", mixed(np.random.RandomState(seed))[-15:], lambda v: v.hex()))
    r = np.random.RandomState(123)
    out.append(row("uint32_t", "chosen", r.choice(100, 10, replace=False), lambda v: f"{v}u"))
    out.append(row("uint32_t", "below", [r.choice(n) for n in (10, 1, 2, 3, 8, 9, 100, 1000003)], lambda v: f"{v}u"))
    pathlib.Path(__file__).with_name("numpy_rng_values.h").write_text("".join(out))


if __name__ == "__main__":
    main()
