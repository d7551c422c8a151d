"""Replays over time, window by window: what the figures draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.arrivals import Floats
from serving.drift_bench.acting.loop import Run
from serving.drift_bench.acting.study import FCFS, Study


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """One kind of run over all seeds, by window of arrivals: p99 and mean E2EL in seconds of all
    requests of a window together; trust and state at arrival, means."""

    p99: Floats
    mean: Floats
    trust: Floats
    state: Floats

    @classmethod
    def of(cls, runs: list[Run], start: int, window: int) -> Course:
        def windows(name: str) -> Floats:
            rows = np.stack([getattr(run, name)[start:] for run in runs]).astype(np.float64)
            whole = rows[:, : rows.shape[1] // window * window]
            return (
                whole.reshape(len(runs), -1, window).swapaxes(0, 1).reshape(-1, len(runs) * window)
            )

        took = windows("e2el")
        return cls(
            np.quantile(took, 0.99, axis=1),
            took.mean(axis=1),
            windows("trust").mean(axis=1),
            windows("state").mean(axis=1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Courses:
    """``at``: arrivals from the change to the middle of each window."""

    at: Floats
    fcfs: Course
    plain: dict[str, Course]
    acting: dict[str, Course]


def courses(study: Study) -> Courses:
    """Windows begin where measuring does."""
    config, replays = study.config, study.replays

    def course(runs: list[Run]) -> Course:
        return Course.of(runs, config.warm_up, config.window)

    fcfs = course([replay.plain[FCFS] for replay in replays])
    count = len(fcfs.p99)
    at = config.window * (np.arange(count, dtype=np.float64) + 0.5) - config.usual
    return Courses(
        at,
        fcfs,
        {name: course([r.plain[name] for r in replays]) for name in config.policies},
        {name: course([r.acting[name] for r in replays]) for name in config.policies},
    )
