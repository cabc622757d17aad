"""What deploy/ has for those who watch: the rules hold, and no expression asks for a metric that is not there."""
import json
import re
import shutil
import subprocess

import pytest
import yaml

from contract import ROOT

DEPLOY = ROOT / "deploy"
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())
METRIC = re.compile(r"\b(?:laplaced|process)_[a-z_]+")
DOCUMENTED, OF_A_SHARED_LOG = (dict(re.findall(r"^\| `([a-z_]+)` \| (\w+) \|", (ROOT / "docs" / page).read_text(), re.M)) for page in ("METRICS.md", "CLUSTER.md"))
DOCUMENTED |= OF_A_SHARED_LOG


def expressions():
    """(where, expression) of all that is asked of Prometheus."""
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel.get("targets", []))
    yield from ((v["name"], v["query"]) for v in DASHBOARD["templating"]["list"] if v["type"] == "query")


def names_asked_for(text):
    """Metrics of an expression: a histogram's series by the histogram's name."""
    for name in METRIC.findall(text):
        base = re.sub("_(bucket|sum|count)$", "", name)
        yield base if DOCUMENTED.get(base) == "histogram" and name != base else name


def test_expressions_ask_for_metrics_that_are_there():
    """docs/METRICS.md is what /metrics has, by t00_metrics.py, and docs/CLUSTER.md what it has where a log is shared."""
    asked = [(where, name) for where, text in expressions() for name in names_asked_for(text)]
    assert len(asked) > 60
    assert [(where, name) for where, name in asked if name not in DOCUMENTED] == []


def test_counters_are_asked_for_as_rates():
    """Of a counter's value itself only the dashboard's totals of differing models and of broken chains are of use."""
    for where, text in expressions():
        for name in names_asked_for(text):
            if DOCUMENTED[name] == "counter" and not text.startswith("label_values") and name not in ("laplaced_verifications_different_total", "laplaced_chain_breaks_total"):
                assert re.search(rf"(rate|increase)\({name}\W", text), (where, name)


def test_labels_that_are_matched_exist(server, api):
    api.select("ann", candidates=["a"], decision="d1")
    api.call("POST", "/reward", {"decision": "d1", "reward": 1})
    shown = api.call("GET", "/metrics").text
    for where, text in expressions():
        for route in re.findall(r'route="([^"]+)"', text):
            assert f'route="{route}"' in shown, (where, route)
        for labels in re.findall(r"\bby \(([a-z, ]+)\)", text):
            for label in labels.split(", ") if not OF_A_SHARED_LOG.keys() & set(names_asked_for(text)) else ():
                assert label in ("job", "instance") or re.search(rf'[{{,]{label}="', shown), (where, label)


def test_every_alert_has_a_case_in_which_it_fires():
    text = (ROOT / "tests/deploy/alerts.test.yml").read_text()
    fires = set(re.findall(r'alertname="(\w+)"', text))
    assert fires == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket") and rule["annotations"]["summary"], rule["alert"]


def test_panels_do_not_overlap_and_have_ids_of_their_own():
    taken, ids = set(), [panel["id"] for panel in DASHBOARD["panels"]]
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("command", [["check", "rules", "deploy/alerts.yml"],
                                     ["check", "config", "--syntax-only", "deploy/prometheus.yml"],
                                     ["test", "rules", "tests/deploy/alerts.test.yml"]])
def test_promtool_agrees(command):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool here (package prometheus)")
    done = subprocess.run(["promtool", *command], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
