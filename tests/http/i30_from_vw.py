"""laplacectl tenant from-vw: a command line of Vowpal Wabbit's as a configuration, which a server takes."""
import json
import subprocess

import pytest

from harness import CTL


def translated(flags, status=0):
    done = subprocess.run([CTL, "tenant", "from-vw", flags], capture_output=True, timeout=60, text=True)
    assert done.returncode == status and (status == 0) == (done.stdout != ""), done
    return (json.loads(done.stdout), done.stderr) if status == 0 else done.stderr


GREEDY = {"type": "fixed", "beta": 0}


@pytest.mark.parametrize("flags, rule, confidence, degree", [
    ("vw --cb_explore_adf", {"type": "ucb", "epsilon": 0.05}, GREEDY, 1),
    ("vw --dsjson -d log.json --cb_explore_adf --epsilon 0.1", {"type": "ucb", "epsilon": 0.1}, GREEDY, 1),
    ("  --cb_explore_adf\t--epsilon=0.1\n-q UA -b 18 -l0.5 ", {"type": "ucb", "epsilon": 0.1}, GREEDY, 1),
    ("--cb_explore_adf -q ::", {"type": "ucb", "epsilon": 0.05}, GREEDY, 2),
    ("--cb_explore_adf --interactions=:: --squarecb", {"type": "igw", "epsilon": 0, "gamma_scale": 10, "gamma_exponent": 0.5}, None, 2),
    ("--squarecb --gamma_scale 1000 --gamma_exponent .25 --cb_explore_adf", {"type": "igw", "epsilon": 0, "gamma_scale": 1000, "gamma_exponent": 0.25}, None, 1),
    ("--cb_explore_adf --regcbopt", {"type": "ucb", "epsilon": 0}, None, 1),
    ("--cb_explore_adf --bag 5 --epsilon 0.02", {"type": "thompson", "epsilon": 0.02}, None, 1),
    ("--cb_explore_adf --softmax --lambda 10", {"type": "thompson", "epsilon": 0}, None, 1)])
def test_flags_become_a_configuration_that_a_server_takes(api, name, flags, rule, confidence, degree):
    configuration, _ = translated(flags)
    assert (configuration["rule"], configuration.get("confidence")) == (rule, confidence)
    made = api.put_tenant(name, **configuration)["configuration"]
    assert {k: made["rule"][k] for k in rule} == rule and made["features"]["dim"] == made["context_dim"] == 256
    for kernel in ("context_kernel", "arm_kernel"):
        assert (made[kernel]["type"], made[kernel]["degree"], made[kernel]["offset"]) == ("polynomial", degree, 1)


def test_what_it_makes_is_epsilon_greedy(api, name):
    api.put_tenant(name, **translated("--cb_explore_adf --epsilon 0.2")[0])
    context = {"user": {"age": "young"}}
    for _ in range(5):
        for arm, reward in (("a", 0), ("b", 1), ("c", 0)):
            api.observe("-", {"id": arm, "features": {"name": arm}}, reward, context=context, tenant=name)
    told = api.select("-", context=context, candidates=[{"id": arm, "features": {"name": arm}} for arm in "abc"], dry_run=True, explain=True, tenant=name)
    assert {r["arm"]: round(r["propensity"], 12) for r in told["ranking"]} == {"a": round(0.2 / 3, 12), "b": round(0.8 + 0.2 / 3, 12), "c": round(0.2 / 3, 12)}


def test_what_means_something_else_is_said():
    _, said = translated("--cb_explore_adf -q UA -b 18 --cb_type mtr --cover 3 --quiet --random_seed 4 --interactions :: --ignore A")
    assert [line.split(":")[0] for line in said.splitlines()] == ["-q", "-b", "--cb_type", "--cover", "--interactions", "--ignore"]
    assert [line.split(":")[0] for line in translated("--cb_explore_adf --regcb")[1].splitlines()] == ["--regcb"]


@pytest.mark.parametrize("flags, why", [
    ("", "expected --cb_explore_adf"), ("--epsilon 0.1", "expected --cb_explore_adf"), ("--cb_explore_adf --nope 3", "--nope: no flag of vw"),
    ("--cb_explore_adf --epsilon", "--epsilon: its value is missing"), ("--cb_explore_adf --epsilon 1.5", "--epsilon 1.5: expected a number from 0 to 1"),
    ("--cb_explore_adf --epsilon x", "expected a number"), ("--cb_explore_adf --epsilon nan", "expected a number"), ("vw --cb_explore_adf=1", "--cb_explore_adf: it takes no value"),
    ("--cb_explore_adf --bag 5 --squarecb", "--squarecb: the flags before it"), ("--cb_explore 4", "--cb_explore: a tenant does what --cb_explore_adf does"),
    ("--cb_explore_adf --first 100", "--first: a tenant does"), ("--cb_explore_adf -d 'open", "has no end"), ("--cb_explore_adf -d " + "x" * 300, "more than 255 bytes"),
    ("file.vw", "file.vw: no flag of vw")])
def test_what_cannot_be_translated_is_refused_by_name(flags, why):
    assert why in translated(flags, status=1)
