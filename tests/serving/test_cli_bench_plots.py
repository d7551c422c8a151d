"""The page of figures that the bench writes."""

import json
import re

from drift.report import Table
from serving.cli.bench import plots
from serving.cli.bench.plots import Axis, Figure, Series

FIGURE = Figure(
    title="A & B",
    words="a falls",
    x=Axis("rate (req/s)", log=True),
    y=Axis("seconds"),
    series=[
        Series("fcfs", [1, 2], [3.0, float("nan")]),
        Series("boost", [1, 2], [2.0, 4.0], low=[1.5, 3.0], high=[2.25, 6.0], labels=["a", "b"]),
    ],
    level=1.0,
)


def test_the_page_carries_figures_and_tables_and_loads_nothing(tmp_path):
    file = plots.write(
        tmp_path / "neu" / "page.html",
        "T",
        "S",
        [FIGURE, Table("Numbers", ("policy", "mean"), (("boost", "1.0"),))],
    )
    html = file.read_text(encoding="utf-8")
    assert html.count("plotly.js v") == 1
    assert "default-src 'none'" in html  # the page forbids itself to load anything
    assert "A &amp; B" in html
    assert html.index("A &amp; B") < html.index("Numbers")
    held = re.search(r'id="figures">(.*?)</script>', html, re.DOTALL)
    assert held is not None
    assert list(json.loads(held[1])) == ["figure-1"]


def test_a_figure_says_what_it_was_given():
    spec = plots.spec(FIGURE)
    fcfs, boost = spec["data"]
    assert fcfs["y"] == [3.0, None]  # JSON has no NaN
    assert boost["error_y"]["array"] == [0.25, 2.0]
    assert boost["error_y"]["arrayminus"] == [0.5, 1.0]
    assert boost["text"] == ["a", "b"]
    assert fcfs["marker"]["color"] != boost["marker"]["color"]
    assert spec["layout"]["xaxis"]["type"] == "log"
    assert "type" not in spec["layout"]["yaxis"]
    assert spec["layout"]["shapes"][0]["y0"] == 1.0


def test_bars_stand_side_by_side():
    bars = Figure("t", "w", Axis("x"), Axis("y"), [Series("a", ["p", "q"], [1, 2])], bars=True)
    spec = plots.spec(bars)
    assert spec["data"][0]["type"] == "bar"
    assert spec["layout"]["showlegend"] is False
