"""Reports of windows, in a workspace that evidently's own code opens."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from scipy import stats

from drift.evidently_report.window import WindowConfig, windows
from drift.evidently_report.workspace import Workspace
from ranker.types import FinishReason
from tests.drift.conftest import sketched

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG = WindowConfig(seconds=300.0, least=200)
START = 1_700_000_100.0  # a multiple of 300


def _shifted(stream, *parts):
    """Streams of ``parts`` (outcomes, tau), one after another, from a multiple of 300 s on."""
    made, start = [], 0
    for seed, (n, tau) in enumerate(parts):
        made += stream(n, tau, seed, start=start)
        start += n
    return [
        dataclasses.replace(o, arrival=o.arrival + 100.0, finished=o.finished + 100.0) for o in made
    ]


def _opened(path):
    from evidently.ui.workspace import Workspace as Evidently

    workspace = Evidently(str(path))
    (project,) = workspace.list_projects()
    runs = [workspace.get_run(project.id, run) for run in workspace.list_runs(project.id)]
    return project, sorted(runs, key=lambda run: run.timestamp)


def _value(run, kind, **params):
    (found,) = [
        result
        for result in run.metric_results.values()
        if (where := result.metric_value_location.metric.params)["type"].endswith(f":{kind}")
        and all(where[k] == v for k, v in params.items())
    ]
    return found


@pytest.mark.slow
def test_evidently_reads_the_reports_back(stream, tmp_path):
    outcomes = _shifted(stream, (1200, 0.4), (600, 0.0), (300, 0.0))
    outcomes[350] = dataclasses.replace(outcomes[350], finish_reason=FinishReason.LENGTH)
    cut = windows(outcomes, CONFIG)
    assert [w.start - START for w in cut] == [300.0, 600.0, 900.0, 1200.0, 1500.0]
    references = {("ranker", "1"): outcomes[:800]}
    space = Workspace(tmp_path / "l'espace", keep=4)
    written = space.write("m <1>", cut, references, CONFIG)
    assert (written.added, written.removed, written.kept) == (4, 0, 4)
    project, runs = _opened(space.path)
    assert project.name == "m <1>"
    assert [run.timestamp.timestamp() for run in runs] == sorted(
        run.timestamp.timestamp() for run in runs
    )
    for run, window in zip(runs, cut[1:], strict=True):
        tau = _value(run, "KendallTau")
        expected = stats.kendalltau(
            [o.forecast.score for o in window.outcomes], [o.output_tokens for o in window.outcomes]
        ).statistic
        assert tau.value == pytest.approx(expected, abs=1e-12)
        (test,) = tau.tests
        assert test.status == ("SUCCESS" if tau.value >= 0.7 * 0.4 - 0.05 else "FAIL")
        within = _value(run, "MeanValue", column="within_p90")
        share = sum(o.output_tokens <= o.forecast.quantile(0.9) for o in window.outcomes)
        assert within.value == pytest.approx(share / len(window.outcomes))
        assert run.metadata == {"ranker": "ranker", "version": "1"}
    assert [_value(run, "KendallTau").tests[0].status for run in runs] == [
        "SUCCESS", "SUCCESS", "FAIL", "FAIL",
    ]  # fmt: skip
    panels = {p.title for p in project.dashboard.model().panels}
    assert "Kendall tau-b of score and length" in panels
    assert os.environ["DO_NOT_TRACK"] == "1"

    # Once more changes nothing, and a newer window takes the oldest one's place.
    before = {p.name: p.read_bytes() for p in space.path.rglob("*.json")}
    assert space.write("m <1>", cut, references, CONFIG).added == 0
    assert {p.name: p.read_bytes() for p in space.path.rglob("*.json")} == before
    later = windows([*outcomes, *_shifted(stream, (2400, 0.4))[2100:]], CONFIG)
    written = space.write("m <1>", later, references, CONFIG)
    assert (written.added, written.removed, written.kept) == (1, 1, 4)
    assert len(_opened(space.path)[1]) == 4
    # No prompt, request id or single length is in it, and nothing half written lies about.
    text = "".join(p.read_text() for p in space.path.rglob("*.json"))
    assert "m-1-0" not in text
    assert all(json.loads(p.read_text()) for p in space.path.rglob("*.json"))
    assert [p.name for p in space.path.iterdir()] == [written.project]


@pytest.mark.slow
def test_a_shift_of_meaning_is_in_the_report_and_fails_nothing(stream, tmp_path):
    rows = _shifted(stream, (900, 0.4))
    outcomes = [*sketched(rows[:300], 1), *sketched(rows[300:], 2, shift=2.0)]
    (window,) = windows(outcomes, CONFIG)
    space = Workspace(tmp_path)
    space.write("m", [window], {("ranker", "1"): outcomes[:300]}, CONFIG)
    (run,) = _opened(space.path)[1]
    found = _value(run, "EmbeddingShift")
    assert found.value == pytest.approx(0.68, abs=0.1)  # of two normals two deviations apart
    assert not found.tests


@pytest.mark.slow
def test_a_window_without_order_is_left_out(stream, tmp_path):
    outcomes = [dataclasses.replace(o, output_tokens=7) for o in _shifted(stream, (900, 0.4))]
    cut = windows(outcomes, CONFIG)
    space = Workspace(tmp_path)
    written = space.write("m", cut, {("ranker", "1"): outcomes}, CONFIG)
    assert (written.added, written.kept) == (0, 0)
    assert space.write("m", cut, {}, CONFIG).added == 0  # nor one without a reference
    assert [p.name for p in tmp_path.iterdir()] == [written.project]


def test_windows_are_whole(stream):
    scored = _shifted(stream, (1000, 0.4))
    outcomes = [dataclasses.replace(o, forecast=None) if i % 2 else o for i, o in enumerate(scored)]
    config = WindowConfig(seconds=300.0, least=150, most=150)
    assert [(w.start - START, len(w.outcomes)) for w in windows(outcomes, config)] == [
        (300.0, 150), (600.0, 150),
    ]  # fmt: skip
    assert windows(outcomes, CONFIG) == []  # too few of each have a forecast
    assert windows([], CONFIG) == []
    late = stream(1000, 0.4, 9, version="2", start=100)
    both = sorted([*scored, *late], key=lambda o: o.arrival)
    versions = [(w.version, w.start - START) for w in windows(both, CONFIG)]
    assert versions == [("1", 300.0), ("2", 300.0), ("1", 600.0), ("2", 600.0)]


@pytest.mark.parametrize(
    "bad", [{"seconds": 0.0}, {"least": 1}, {"most": 10}, {"recover": 0.0}, {"slack": 0.6}]
)
def test_mistakes_are_refused(bad):
    with pytest.raises(ValueError, match="window"):
        WindowConfig(**bad)
    with pytest.raises(ValueError, match="keep"):
        Workspace(None, keep=0)
