"""Alert rules and dashboard against what is really exported, and against Prometheus's own tool."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from drift import assets
from drift.config import MonitorConfig
from drift.delivery import Delivery
from drift.loop_metrics import LoopCollector
from drift.metrics import DriftCollector
from drift.notify.config import Webhook
from drift.notify.metrics import RESULTS, NotifyCollector
from drift.notify.notifier import Notifier
from drift.retraining import Attempt, Phase
from drift.sink import MonitoredStore
from drift.states import State
from serving.metrics import RankMetrics
from tests.drift.conftest import make_stream

HERE = Path(__file__).parent
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None,
    reason="promtool is not here, so the alert rules were not run: apt-get install prometheus",
)


def _rules():
    groups = yaml.safe_load(assets.text("alerts.yml"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _queries():
    """PromQL of the dashboard: panels, annotations, and selectors of its variables."""
    board = json.loads(assets.text("grafana.json"))
    found = [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]
    found += [a["expr"] for a in board["annotations"]["list"] if "expr" in a]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            (selector,) = re.findall(r"label_values\((.*), \w+\)$", variable["query"]["query"])
            found.append(selector)
    return found


class Looped:
    """One attempt at retraining that has failed."""

    def shadows(self):
        return ()

    def prompts(self):
        return {}

    def retraining(self):
        return [Attempt("m", "r", "champion", "1", Phase.FAILED, 0.0, 0.0).as_dict()]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Names of samples, from the collectors that the rank service registers, of a monitor that has
    seen two tenants of one reporter."""
    folder = tmp_path_factory.mktemp("exported")
    registry = CollectorRegistry()
    config = MonitorConfig(chart=replace(MonitorConfig().chart, streams=8, length=1024))
    sink = MonitoredStore.open(folder / "o.db", folder / "e.jsonl", lambda: 0.0, config)
    registry.register(DriftCollector(sink))
    hook = Webhook(url="http://127.0.0.1:9/", name="hook")
    notifier = Notifier([hook], {}, lambda: 0.0, random.Random(1))
    registry.register(NotifyCollector(notifier))
    RankMetrics(registry)
    registry.register(LoopCollector(Looped()))
    outcomes = [replace(o, tenant="ab"[i % 2]) for i, o in enumerate(make_stream(1500, 0.4, 1))]
    for start in range(0, 1500, 100):
        batch = outcomes[start : start + 100]
        sink.receive(Delivery(batch, reporter="engine"), batch[-1].arrival)
    sink.flush()
    yield {sample.name for family in registry.collect() for sample in family.samples} | {
        f"{family.name}{suffix}"  # counters and histograms with labels have no sample yet
        for family in registry.collect()
        for suffix in {"counter": ["_total"], "histogram": ["_bucket"]}.get(family.type, [])
    }
    notifier.close(0.0)
    sink.close()


def test_every_metric_that_is_asked_for_is_exported(exported):
    asked = [rule["expr"] for rule in _rules()] + _queries()
    assert len(asked) > 30
    for query in asked:
        names = set(re.findall(r"\bshortfirst_\w+", query))
        assert names, query
        assert names <= exported, query


def test_what_is_lost_is_alerted_on():
    (rule,) = [rule for rule in _rules() if rule["alert"] == "ShortfirstNotificationsLost"]
    (lost,) = re.findall(r'result=~"([a-z|]+)"', rule["expr"])
    told = {"delivered", "resent", "retried", "duplicate"}
    assert set(lost.split("|")) == set(RESULTS) - told


def test_every_state_has_an_alert_and_a_name_on_the_dashboard():
    exprs = [r["expr"].strip() for r in _rules() if "shortfirst_drift_slice_state" in r["expr"]]
    compared = {int(m[1]) for expr in exprs if (m := re.search(r"== (\d)$", expr))}
    assert compared == {state.value for state in State if state is not State.OK}
    board = json.loads(assets.text("grafana.json"))
    for panel in board["panels"]:
        for mapping in panel.get("fieldConfig", {}).get("defaults", {}).get("mappings", []):
            shown = {int(k): v["text"] for k, v in mapping["options"].items()}
            assert shown == {state.value: str(state) for state in State}


def test_alerts_say_what_to_do():
    for rule in _rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description", "action"}


def test_the_dashboard_is_whole():
    board = json.loads(assets.text("grafana.json"))
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["targets"]
    known = {variable["name"] for variable in board["templating"]["list"]}
    used = {name for query in _queries() for name in re.findall(r"\$(\w+)", query)}
    assert used - {"__rate_interval"} <= known


@needs_promtool
def test_alerts_fire_when_they_should_and_not_before():
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", "alerts_test.yml"],
        cwd=HERE, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    tested = yaml.safe_load((HERE / "alerts_test.yml").read_text())["tests"]
    fired = {
        case["alertname"] for t in tested for case in t["alert_rule_test"] if "exp_alerts" in case
    }
    assert fired == {rule["alert"] for rule in _rules()}


@needs_promtool
def test_queries_of_the_dashboard_are_promql(tmp_path):
    rules = [
        {"record": f"q:{i}", "expr": query.replace("$__rate_interval", "5m")}
        for i, query in enumerate(_queries())
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", str(path)],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_can_be_written_anywhere(tmp_path):
    folder = tmp_path / "chez l'opérateur"
    assert [p.name for p in assets.write(folder)] == ["alerts.yml", "grafana.json"]
    assert (folder / "alerts.yml").read_text() == assets.text("alerts.yml")
