"""What a ranker's order was worth when it was known to be good: what drift is measured against."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import Calibration, calibrate
from drift.detectors.sample import Sample
from drift.files import write_whole
from drift.key import Key
from drift.tau import Tau, kendall_tau
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Reference:
    """tau-b of the reference outcomes and the chart calibrated on them.

    ``calibration.limits`` are those of ``warn`` and ``degraded``.
    """

    outcomes: int
    tau: Tau
    calibration: Calibration

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
        calibration = calibrate(sample, arl, config.chart)
        tau = kendall_tau(sample.scores, sample.tokens, sample.censored, config.confidence)
        return cls(len(sample), tau, calibration)

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
    scored = [(o.forecast.score, o) for o in outcomes if o.forecast is not None]
    return Sample(
        np.array([score for score, _ in scored], dtype=np.float64),
        np.array([o.output_tokens for _, o in scored], dtype=np.int64),
        np.array([o.finish_reason.censored for _, o in scored], dtype=np.bool_),
    )


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
    outcomes: int, tau: dict[str, float], calibration: dict[str, float | list[float]]
) -> Reference:
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in calibration.items()}
    return Reference(outcomes, Tau(**tau), Calibration(**values))  # type: ignore[arg-type]
