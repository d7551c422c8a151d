"""The figures on the board: plain frozen values, ready for JSON. ``None``: not known (yet).

Times are Unix seconds, lengths output tokens, shares lie in [0, 1]. Nothing here is computed and
nothing holds prompt text; ``drift.board`` fills it in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A statistic with its confidence interval (95 % unless configured otherwise)."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: float, low: float = math.nan, high: float = math.nan) -> Interval:
        """From floats of which NaN and infinities mean unknown."""
        return cls(known(value), known(low), known(high))


def known(value: float | None) -> float | None:
    """``value``, or ``None`` for what JSON has no number for."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Series:
    """One row of the slices table, and the whole of a ranker version (``lane`` and ``tenant`` are
    ``None`` there). For all that have no row of their own ``lane`` is ``None`` and ``tenant``
    ``"(other)"``; a tenant of that name has a lane, if an empty one.

    ``outcomes``: weighed since it began; ``window``: of those, the newest, which every statistic
    below is about. ``traffic``: its share of its served model's outcomes of late. ``tau``: Kendall
    tau-b of score and length; ``concordance``: Harrell's C (0.5 is chance, 1 perfect).
    ``efficiency``: SJF efficiency of mean E2EL (1 an oracle, 0 FCFS, below 0 worse than FCFS),
    ``efficiency_per_token`` the same of mean latency per token; ``p99_ratio``: p99 E2EL of the
    replay in forecast order over FCFS (above 1: the tail pays). ``usual_efficiency``: what it was
    while all was well. ``saved_seconds``: E2EL saved per request against FCFS at the load of the
    last hour. ``harm``: ``traffic`` x efficiency lost, what the table is sorted by.
    ``length_shift`` and ``input_shift``: the largest PSI of lengths and of inputs against the
    reference (above 0.25 is a large one). ``chart`` alarms at ``chart_degraded``.
    """

    served_model: str
    ranker: str
    version: str
    lane: str | None
    tenant: str | None
    label: str
    state: str
    outcomes: int
    window: int
    traffic: float | None
    tau: Interval
    reference_tau: float | None
    concordance: Interval
    efficiency: Interval
    efficiency_per_token: Interval
    p99_ratio: float | None
    usual_efficiency: float | None
    saved_seconds: Interval
    harm: float
    unscored: float | None
    censored: float | None
    coverage_p50: float | None
    coverage_p90: float | None
    length_shift: float | None
    input_shift: float | None
    chart: float | None
    chart_warn: float | None
    chart_degraded: float | None
    first_arrival: float | None
    last_arrival: float | None


@dataclass(frozen=True, slots=True)
class Point:
    """The window of the whole at one arrival. ``outcome`` numbers the outcomes of the version."""

    at: float
    outcome: int
    tau: Interval
    chart: float | None
    coverage_p50: float | None
    coverage_p90: float | None
    state: str


@dataclass(frozen=True, slots=True)
class Worth:
    """One replay for SJF efficiency; see ``Series``."""

    at: float
    outcome: int
    efficiency: Interval
    efficiency_per_token: Interval
    p99_ratio: float | None


@dataclass(frozen=True, slots=True)
class Past:
    """What was seen of a ranker version that its served model does not use now, fewer points."""

    ranker: str
    version: str
    history: tuple[Point, ...]
    worth: tuple[Worth, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """Calibration: ``observed`` share of lengths at or below the forecast quantile at ``level``."""

    level: float
    observed: float | None


@dataclass(frozen=True, slots=True)
class Band:
    """Pairwise accuracy by length: of pairs whose longer one has ``low`` <= tokens < ``high``
    (``None``: no end), the share that the scores order rightly; ties in score count half."""

    low: int
    high: int | None
    outcomes: int
    pairs: int
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Density:
    """Forecast median against realised length, both in bins that double: ``counts[i][j]`` outcomes
    with forecast in ``[edges[i], edges[i+1])`` and length in ``[edges[j], edges[j+1])``; lower
    bounds are left out of it and counted in ``left_out``."""

    edges: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Shift:
    """One distribution of the window against that of the reference.

    ``name``: ``output_tokens``, ``prompt_tokens``, ``score``, ``novelty`` or, of rankers that have
    one, ``embedding``: what is asked has changed in meaning, though its length and score may not
    have. ``psi``: population stability index over ten bins of the reference; below 0.1 nothing,
    above 0.25 large. ``distance``: largest difference of the two distribution functions
    (Kolmogorov-Smirnov), lower bounds allowed for. ``chance``: the distance that samples of this
    size pass in 5 % of cases. Of embeddings the projection that moved the furthest counts.
    """

    name: str
    psi: float | None
    distance: float | None
    chance: float | None
    reference: int
    window: int


@dataclass(frozen=True, slots=True)
class Version:
    """A ranker version that outcomes named, newest last."""

    ranker: str
    version: str
    current: bool
    state: str
    outcomes: int
    tau: Interval
    reference_tau: float | None
    first_arrival: float | None
    last_arrival: float | None


@dataclass(frozen=True, slots=True)
class ReporterRow:
    """Who reports. ``notes`` say in words what is wrong with its reports, if anything is."""

    reporter: str
    outcomes: int
    open: int
    late: int
    clock_ahead_seconds: float
    last_report: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Faults:
    """Counts since the service started. ``duplicates``: reports of a known id; ``conflicts``: those
    of them with other numbers (the first counts). ``late``: came after their place in order and so
    are in the statistics and not on the chart. ``bounds``: open requests that entered as lower
    bounds; ``settled``: those of them that ended later and replaced their bound; these three are of
    the served models that are known now, what was weighed again at the start included. ``clock``:
    times that had to be set right. ``refused``: outcomes not stored because the store could not.
    ``jobs``: work around the monitor that found no place to wait, see ``drift.worker``."""

    duplicates: int = 0
    conflicts: int = 0
    late: int = 0
    bounds: int = 0
    settled: int = 0
    clock: int = 0
    refused: int = 0
    jobs: int = 0
