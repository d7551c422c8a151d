"""What a ranker's order was worth when it was known to be good: what drift is measured against."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import Calibration, calibrate
from drift.detectors.observation import Observation
from drift.detectors.pit_cusum import PitCusum, PitFit
from drift.detectors.sample import Sample
from drift.detectors.tau_window import TauWindow, TauWindowConfig, TauWindowFit
from drift.early import EarlyFit
from drift.files import write_whole
from drift.key import Key
from drift.tau import Tau, kendall_tau
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Reference:
    """tau-b of the reference outcomes and the detectors calibrated on them.

    All limits are those of ``warn`` and ``degraded``. ``calibration`` is the concordance chart's;
    ``early`` is for outcomes as they end, ``None`` in a reference that an older version saved: then
    there is no caution (``drift.early``) until another ranker version comes.
    ``window`` is ``None`` while the reference is shorter than two windows, which then say little of
    each other; ``scale`` when lengths and forecasts do not tell.
    """

    outcomes: int
    tau: Tau
    calibration: Calibration
    window: TauWindowFit | None = None
    scale: PitFit | None = None
    early: EarlyFit | None = None

    @classmethod
    def learn(cls, outcomes: Sequence[Outcome], config: MonitorConfig) -> Reference:
        """From scored outcomes in arrival order: a held-out evaluation or the first live ones.

        Raises ``ValueError`` when there are too few, or they order no better than chance.
        """
        return cls.of(sample_of(outcomes), config)

    @classmethod
    def of(cls, sample: Sample, config: MonitorConfig) -> Reference:
        """The same from arrays."""
        arl = (config.warn_arl, config.degraded_arl)
        chart = config.chart
        calibration = calibrate(sample, arl, chart)
        early = EarlyFit.of(sample, config.early, chart.bootstrap)
        tau = kendall_tau(sample.scores, sample.tokens, sample.censored, config.confidence)
        window = scale = None
        if len(sample) >= 2 * config.window:
            sliding = TauWindowConfig(
                config.window, config.every, length=max(4096, 8 * config.window)
            )
            window = TauWindow(sliding).fit(sample, arl, chart.bootstrap)
        if sample.pit is not None and len(np.unique(sample.pit)) > 1:
            scale = PitCusum(config.scale).fit(sample, arl, chart.bootstrap)
        return cls(len(sample), tau, calibration, window, scale, early)

    @property
    def warn_limit(self) -> float:
        return self.calibration.limits[0]

    @property
    def degraded_limit(self) -> float:
        return self.calibration.limits[1]

    @property
    def allowance_tau(self) -> float:
        """The chart's allowance on the scale of tau-b: below it, the chart climbs."""
        return self.tau.value * self.calibration.allowance / self.calibration.concordance


def sample_of(outcomes: Sequence[Outcome]) -> Sample:
    """Arrays of the scored ones among ``outcomes``."""
    return Sample.of([o for o in map(Observation.of, outcomes) if o is not None])


def save_references(path: Path, references: Mapping[Key, Reference]) -> None:
    """Write ``references`` as JSON, whole or not at all."""
    items = [{"key": asdict(key), "reference": asdict(ref)} for key, ref in references.items()]
    write_whole(path, json.dumps(items, indent=1))


def load_references(path: Path) -> dict[Key, Reference]:
    """Read what :func:`save_references` wrote; none when there is no file.

    Raises ``ValueError`` when it holds anything else.
    """
    if not path.exists():
        return {}
    try:
        return {
            Key(**item["key"]): _reference(**item["reference"])
            for item in json.loads(path.read_text(encoding="utf-8"))
        }
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} does not hold drift references: delete it") from error


def _reference(
    outcomes: int,
    tau: dict[str, Any],
    calibration: dict[str, Any],
    window: dict[str, Any] | None = None,
    scale: dict[str, Any] | None = None,
    early: dict[str, Any] | None = None,
) -> Reference:
    found = None
    if window is not None:
        settings = TauWindowConfig(**window["config"])
        found = TauWindowFit(**_tuples({**window, "config": settings}))
    return Reference(
        outcomes,
        Tau(**tau),
        Calibration(**_tuples(calibration)),
        found,
        None if scale is None else PitFit(**_tuples(scale)),
        None if early is None else EarlyFit(**early),
    )


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
