from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.monitor import Monitor
from drift.report import (
    DriftSection,
    EfficiencyRow,
    Fact,
    PolicyRun,
    ReportData,
    Table,
    render,
    write,
)
from drift.report.forecasts import bins
from drift.report.style import seconds
from engine.metrics import Timing

EVIL = "</script><script>alert(1)</script>"


def _run(policy: str, factor: float) -> PolicyRun:
    rng = np.random.default_rng(1)
    timings = tuple(
        Timing(f"{i}", i, i + 0.1 * factor, i + 0.2 * factor + float(rng.exponential(5)), 9, 50)
        for i in range(600)
    )
    return PolicyRun(policy, timings, peak_waiting=7, mean_waiting=2.5, tau=None)


class _Page(HTMLParser):
    """Tags that were opened and closed, ids, and what an element would fetch."""

    VOID = frozenset({"meta", "line", "br", "link", "img"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.fetched: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        if found.get("role") == "img":
            self.labels.append(found["aria-label"])
        self.fetched += [found[k] for k in ("src", "href") if k in found]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def _figures(html: str) -> dict:
    return json.loads(re.search(r'id="figures">(.*?)</script>', html, re.S).group(1))


@pytest.fixture
def report(stream):
    monitor = Monitor(MonitorConfig(chart=ChartConfig(streams=24, length=4096)))
    outcomes = stream(900, 0.36, 1) + stream(500, 0.0, 2, start=900)
    events = tuple(e for o in outcomes for e in monitor.update(o))
    return ReportData(
        title=f"Title {EVIL}",
        subtitle="sub",
        created="today",
        runs=(_run("fcfs", 3.0), _run("boost", 1.0)),
        outcomes=tuple(outcomes[:900]),
        drift=(DriftSection.of(monitor, "m", events, ((900, f"switch {EVIL}"),)),),
        efficiency=(EfficiencyRow("before", 0.5, 0.9, 0.36), EfficiencyRow("after", math.nan, 0)),
        tables=(Table("Ranker", ("name", "tau"), ((EVIL, "0.3"),)),),
        facts=(Fact("9", "nine", "a note"),),
        notes=("A note.",),
    )


def test_the_page_is_whole_self_contained_and_escaped(report):
    html = render(report)
    page = _Page(html)
    assert page.open == []
    assert page.fetched == []
    assert EVIL not in html
    assert html.count("plotly.js v") == 1  # the library is carried once
    assert "default-src 'none'" in html
    assert len(set(page.ids)) == len(page.ids)


def test_every_figure_has_a_place_and_says_in_words_what_it_shows(report):
    html = render(report)
    page = _Page(html)
    figures = _figures(html)
    assert len(figures) == 3 + 2 + 2 + 1
    assert set(figures) <= set(page.ids)
    assert len(page.labels) == len(figures)
    assert all(len(label) > 40 for label in page.labels)
    assert any("ok to warn" in label for label in page.labels)


def test_colours_are_roles_that_the_style_sheet_defines(report):
    html = render(report)
    roles = set(re.findall(r'"@([a-z0-9]+?)(?:band|veil)?"', json.dumps(_figures(html))))
    defined = set(re.findall(r"--([a-z0-9]+):", html))
    assert roles
    assert roles <= defined


def test_numbers_in_the_table_are_those_of_the_timings(report):
    html = render(report)
    mean = np.mean([t.e2el for t in report.runs[1].timings])
    base = np.mean([t.e2el for t in report.runs[0].timings])
    assert f"{seconds(mean)} <small>×{mean / base:.2f}</small>" in html


def test_distribution_functions_are_monotone_and_end_at_one(report):
    figures = list(_figures(render(report)).values())[:3]
    for figure in figures:
        for line in figure["data"]:
            assert line["x"] == sorted(line["x"])
            assert line["y"] == sorted(line["y"])
            assert line["y"][-1] == 1.0


def test_the_alert_and_the_marks_are_drawn_where_they_happened(report):
    tau = list(_figures(render(report)).values())[5]["layout"]
    alert = next(e for e in report.drift[0].events if e.alert)
    places = {shape["x0"] for shape in tau["shapes"] if shape["type"] == "line"}
    assert {900, alert.outcome} <= places
    assert any("alert" in note["text"] for note in tau["annotations"])


def test_sections_without_data_are_left_out():
    html = render(ReportData("t", "s", "c"))
    assert "<section>" not in html
    assert len(html) < 50_000  # no figure, no plotting library


def test_answers_that_were_all_cut_off_make_a_page(stream):
    cut = stream(60, 0.5, 3, limit=1)
    assert all(o.finish_reason.censored for o in cut)
    monitor = Monitor()
    for outcome in cut:
        monitor.update(outcome)
    monitor.flush()
    sections = (DriftSection.of(monitor, "m"),)
    html = render(ReportData("t", "s", "c", outcomes=tuple(cut), drift=sections))
    page = _Page(html)
    assert any("60 were cut off" in label for label in page.labels)
    assert not re.search(r"\bnan\b", " ".join(page.labels), re.IGNORECASE)
    calibration = list(_figures(html).values())[1]["data"][1]
    assert None in calibration["y"]


def test_bins_hold_equal_shares_and_realised_percentiles(stream):
    outcomes = stream(600, 0.5, 3)
    groups = bins(outcomes, 6)
    assert len(groups) == 6
    first = sorted(outcomes, key=lambda o: o.forecast.median)[:100]
    assert groups[0].realised_p50 == pytest.approx(np.median([o.output_tokens for o in first]))
    assert [g.median for g in groups] == sorted(g.median for g in groups)


def test_write_replaces_the_file_and_leaves_nothing_else(report, tmp_path):
    path = tmp_path / "dossier é" / "r.html"
    write(report, path)
    write(report, path)
    assert [p.name for p in path.parent.iterdir()] == ["r.html"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "12.3 ms"), (1.5, "1.5 s"), (2e-5, "20 µs"), (1234.0, "1,234 s"), (math.nan, "–")],
)
def test_seconds_read_well(value, text):
    assert seconds(value) == text


def test_malformed_values_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        PolicyRun("fcfs", ())
    with pytest.raises(ValueError, match="2 cells under 1"):
        Table("t", ("a",), (("1", "2"),))
