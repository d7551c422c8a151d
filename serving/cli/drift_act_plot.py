"""Figures of ``shortfirst drift act-replay``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from serving.cli.bench import plots

if TYPE_CHECKING:
    from serving.drift_bench.acting.course import Courses
    from serving.drift_bench.acting.study import Study
    from serving.drift_bench.acting.summary import Delays

_X = plots.Axis("arrivals since the change")


def draw(path: Path, found: Study) -> Path:
    """Write the page; return ``path``."""
    from serving.drift_bench.acting.course import courses
    from serving.drift_bench.acting.summary import delays

    over, parts = courses(found), list[plots.Figure]()
    for delay in delays(found):
        parts += _figures(delay.policy, over, delay, found)
    config, shift = found.config, found.story.shift
    return plots.write(
        path,
        "Acting on drift",
        f"Traffic turns into {shift.name} ({shift.what}) and back; {len(found.replays)} seeds, "
        f"windows of {config.window} arrivals, load {config.streams.load:g} in bursts",
        parts,
    )


def _figures(policy: str, over: Courses, delay: Delays, found: Study) -> list[plots.Figure]:
    config = found.config
    marks = [
        ("trust gone", delay.found.median),
        ("usual traffic again", float(config.changed)),
        ("trust back", config.changed + delay.returned.median),
    ]
    plain, acting = over.plain[policy], over.acting[policy]
    at = over.at.tolist()
    three = [
        ("fcfs", over.fcfs),
        (f"{policy}, no monitor", plain),
        (f"{policy}, monitor acting", acting),
    ]
    tallest = max(float(course.p99.max()) for _, course in three)
    return [
        plots.Figure(
            f"{policy}: p99 E2EL",
            f"99th percentile of end-to-end latency of the requests that arrive in each window, "
            f"under FCFS, under {policy}, and under {policy} with the monitor acting.",
            _X,
            plots.Axis("seconds"),
            [
                *(plots.Series(name, at, course.p99.tolist()) for name, course in three),
                *_marks(marks, tallest),
            ],
            caption="The dashed line is the change of traffic; the others stand where the median "
            "seed has them.",
            upright=0.0,
        ),
        plots.Figure(
            f"{policy}: mean E2EL over FCFS's",
            "Mean end-to-end latency in each window over that of FCFS; below 1 the order gains.",
            _X,
            plots.Axis("ratio"),
            [
                plots.Series(name, at, (course.mean / over.fcfs.mean).tolist())
                for name, course in three[1:]
            ],
            level=1.0,
            upright=0.0,
            height=300,
        ),
        plots.Figure(
            f"{policy}: state and trust",
            "State of the monitor, 0 ok to 3 fcfs, and the trust that forecasts carry, means over "
            "seeds.",
            _X,
            plots.Axis("state, trust"),
            [
                plots.Series("state", at, acting.state.tolist()),
                plots.Series("trust", at, acting.trust.tolist()),
            ],
            upright=0.0,
            height=300,
        ),
    ]


def _marks(marks: Sequence[tuple[str, float]], top: float) -> list[plots.Series]:
    """Lines from bottom to top."""
    return [plots.Series(name, [at, at], [0.0, top]) for name, at in marks if math.isfinite(at)]
