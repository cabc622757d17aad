"""The goals of the Makefile: each installs what it needs before it begins."""
import re
import subprocess

import pytest

from contract import ROOT

GOALS = re.findall(r"^([a-z][a-z-]*) +.+$", subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout, re.M)


def begun(goal):
    """What the goal asks for to be installed, and the commands behind that."""
    done = subprocess.run(["make", "-n", goal, "SETUP=echo asked for"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^asked for (.*)$", done.stderr, re.M), done.stdout


@pytest.mark.parametrize("goal", sorted(set(GOALS) - {"docker"}))
def test_what_a_goal_runs_is_installed_first(goal):
    asked, commands = begun(goal)
    needed = {"--test"} if re.search(r"python3|(?<![.\w])sh tests/", commands) else set()
    needed |= {"--lint"} if "cppcheck" in commands else set()
    needed |= {"--paper"} if "paperbench --out" in commands else set()
    assert needed <= set(" ".join(asked).split()), (goal, asked)


def test_what_cannot_be_installed_ends_the_goal():
    done = subprocess.run(["make", "-n", "test", "SETUP=false"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "what these goals need is not there" in done.stderr and done.stdout == ""
