"""Configurations of tenants, at the ends of their ranges."""
from contract import CONTRACT

PRESETS = CONTRACT.doc["components"]["schemas"]["Algorithm"]["enum"]
FORGETTING = ({"type": "none"}, {"type": "discount", "discount": 0.9}, {"type": "discount", "discount": 5e-324}, {"type": "discount", "discount": 0.9999999999999999},
              {"type": "half_life", "half_life_s": 0.001}, {"type": "half_life", "half_life_s": 1e9})
ENDS = (1e-12, 1.0, 1e12)
VECTOR = ("rbf", "matern12", "matern32", "matern52", "linear", "polynomial", "polynomial", "delta", "ones")
USER = ("laplacian", "identity", "ones", "heat", "spectral_rbf", "mmd")


def vector_kernel(rng):
    kind = rng.choice(VECTOR)
    return {"type": kind, **({"lengthscale": rng.choice((*ENDS, "median"))} if rng.random() < 0.7 else {}),
            **({"degree": rng.choice((1, 2, 8)), "offset": rng.choice((0, 1, 1e12))} if kind == "polynomial" else {})}


def user_kernel(rng, dims):
    kind = rng.choice(USER if any(dims.values()) else USER[:-1])
    k = {"type": kind}
    if rng.random() < 0.6:
        k |= {"rho": rng.choice(ENDS), "tau": rng.choice(ENDS), "power": rng.choice((1, 1, 1e-12, 0.5, 4)) if kind == "laplacian" else 1}
    if kind == "laplacian" and k.get("power", 1) == 1 and rng.random() < 0.5:
        k["population"] = rng.choice((0, 1e-12, 1, 1e12))
    elif kind != "laplacian" or k.get("power", 1) != 1:
        k["population"] = 0
    if kind == "mmd":
        k |= {"refresh": 3, "min_observations": 1, "features": 4, "lengthscale": rng.choice((*ENDS, "median")), "bandwidth": rng.choice((*ENDS, "median"))}
    elif rng.random() < 0.3:
        k["normalize"] = rng.random() < 0.5
    return k


def representation(rng):
    r = {"type": rng.choice(("exact", "exact", "kors", "threshold", "bkb", "bbkb", "by_arm", "by_component"))}
    if rng.random() < 0.6:
        r |= {"lambda": rng.choice(ENDS), "mu": rng.choice(ENDS), "gamma": rng.choice(ENDS), "q": rng.choice(ENDS), "batch_ratio": rng.choice((1, 10, 1e12)),
              "epsilon": rng.choice((5e-324, 0.5, 0.9999999999999999)), "threshold": rng.choice((5e-324, 0.01, 0.9999999999999999))}
    if rng.random() < 0.5:
        r |= {"max_dictionary": rng.choice((1, 3, 1024)), "exact_limit": rng.choice((1, 4, 1000))}
    return r


def prior(rng):
    return {"mean": rng.choice((0, -1e30, 1e30, 0.5)), **{part: rng.choice((0, *ENDS)) for part in ("arm", "feature", "user", "context", "linear")}}


def confidence(rng):
    return {"type": rng.choice(("fixed", "fixed", "lk", "ek", "ay", "igp", "amm", "dmm", "cmm", "bkb", "ek_plus")), "beta": rng.choice((0, 1e-12, 2, 1e12)),
            "noise": rng.choice(ENDS), "delta": rng.choice((5e-324, 0.01, 0.9999999999999999)), "norm_bound": rng.choice((*ENDS, "auto")),
            "score": rng.choice(("upper", "fixed")), "form": rng.choice(("cross", "split", "simple"))}


def model(rng, dims):
    """What a tenant, a challenger or a replay may say of its model; some of it does not go together and is refused."""
    c = {"algorithm": rng.choice(PRESETS)}
    parts = {"user_kernel": lambda: user_kernel(rng, dims), "context_kernel": lambda: vector_kernel(rng), "arm_kernel": lambda: vector_kernel(rng),
             "representation": lambda: representation(rng), "prior": lambda: prior(rng), "confidence": lambda: confidence(rng), "forgetting": lambda: rng.choice(FORGETTING),
             "rule": lambda: {"type": rng.choice(("ucb", "thompson", "uniform", "sup_kernel", "rand_ucb", "igw", "top_two", "split")), "weights": {"a": rng.choice((0, 5e-324, 1, 1e6)), "b": 1}, "epsilon": rng.choice((0, 5e-324, 0.1, 1)), "scale": rng.choice(ENDS),
                              "gamma_scale": rng.choice((0, 5e-324, 10, 1e12)), "gamma_exponent": rng.choice((0, 5e-324, 0.5, 1))}}
    for name, make in parts.items():
        if rng.random() < 0.35:
            c[name] = make()
    return c


def configuration(rng, dims, temper, traffic):
    """traffic: settings that a story keeps."""
    c = {**model(rng, dims), **dims, **traffic}
    if rng.random() < 0.3:
        c["default_reward"] = temper.number()
    if rng.random() < 0.3:
        c["pending"] = "hallucinate"
    if rng.random() < 0.3:
        c["challengers"] = {f"c{i}": model(rng, dims) for i in range(rng.choice((1, 2)))}
    if rng.random() < 0.2:
        c["log_candidates"] = True
    if rng.random() < 0.2:
        c["experiment"] = rng.choice(({"difference": 5e-324}, {"difference": 1e30, "range": [-1e30, 1e30]}, {"difference": 0.5, "level": 1e-6, "traffic_level": 0.5}))
    if rng.random() < 0.2:
        c["routing"] = {"holdout": {"share": rng.choice((0, 5e-324, 0.5, 1)), "baseline": {"arm": "a0"}}, "sticky": rng.choice((None, {"ttl_s": 0.001}, {"ttl_s": 316224000}))}
    return c
