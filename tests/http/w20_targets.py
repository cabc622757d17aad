"""The goals of the Makefile: each installs what it needs before it begins, and what is installed is enough."""
import ast
import os
import re
import subprocess
import sys

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
    pages = set(re.findall(r"python3 -B tools/pages/pages.py", commands))
    needed = {"--test"} if re.search(r"python3 (?!-B tools/pages/)|(?<![.\w])sh tests/", commands) else set()
    needed |= {"--pages"} if pages else set()
    needed |= {"--package"} if "tools/deb.sh" in commands else set()
    needed |= {"--image"} if "tools/image.sh" in commands else set()
    needed |= {"--lint"} if "cppcheck" in commands else set()
    needed |= {"--paper"} if "paperbench --out" in commands else set()
    needed |= {"--build"} if "tools/run.sh" in commands or "tools/tour.sh" in commands else set()
    assert needed <= set(" ".join(asked).split()), (goal, asked)


def test_what_cannot_be_installed_ends_the_goal():
    beside = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}  # of a make around the tests
    done = subprocess.run(["make", "-n", "test", "SETUP=false"], cwd=ROOT, env=beside, capture_output=True, text=True)
    assert done.returncode == 2 and "what these goals need is not there" in done.stderr and done.stdout == ""


def packages(*groups):
    done = subprocess.run(["sh", "tools/setup.sh", *groups, "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def test_every_module_that_python_imports_is_in_what_is_installed():
    """Those of the tests, campaigns, benches and tools: the standard library, files of ours, and Debian's python3-NAME."""
    files = [path for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("tools/**/*.py"))
             if path.parent.name != "golden"]  # these made the fixtures beside them, and no goal runs them
    ours = {path.stem for path in files} | {path.parent.name for path in files if path.name == "__init__.py"}
    told = {group: packages(group) for group in ("--test", "--league")}
    debian = {"yaml": "python3-yaml", "numpy": "python3-numpy", "requests": "python3-requests", "jsonschema": "python3-jsonschema",
              "pytest": "python3-pytest", "xdist": "python3-pytest-xdist", "sklearn": "python3-sklearn"}
    for path in files:
        of_path = told["--league" if path.parent.name == "league" else "--test"]
        for module in set(imported(path)) - ours - set(sys.stdlib_module_names):
            assert debian.get(module) in of_path, f"{path.relative_to(ROOT)} imports {module}"


def test_the_tour_and_the_first_lines_of_curl_need_no_more_than_make_run():
    assert "curl" in packages()
