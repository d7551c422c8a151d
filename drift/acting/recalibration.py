"""Which versions have their quantiles fitted to recent outcomes: from when, and until when."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drift.acting.change import QUANTILES, Change
from drift.acting.config import RecalibrateConfig
from drift.acting.refit import Floats, Refit, out_of_true, refit, since_change
from drift.acting.standing import Standing
from drift.key import Key
from drift.states import State
from ranker.types import Forecast, Outcome

RAW, FITTED = "the ranker's", "recalibrated"

#: What outcomes of a version to fit to, oldest first.
Recent = Callable[[Key], Sequence[Outcome]]


@dataclass(frozen=True, slots=True)
class _Gap:
    """Moving mean of how far fitted p50 and p90 lie from the ranker's, in log tokens."""

    answers: int = 0
    p50: float = 0.0
    p90: float = 0.0

    def closed(self, config: RecalibrateConfig) -> bool:
        worst = max(abs(self.p50), abs(self.p90) / 2.0)  # a p90 is told half as well
        return self.answers >= config.answers and worst <= config.right


@dataclass(slots=True)
class _Version:
    fitted: Refit | None = None
    at: int = 0  # outcomes of the version when it was looked at last
    when: float = -math.inf  # second of that
    state: State = State.OK  # of its order, then


class Recalibration:
    """Off for a version that is ``ok``: its ranker knows more of a prompt than the score says.

    It starts at ``warn`` or beyond (a change of scale brings ``warn``) when the quantiles that were
    given out do not cover, or when the version is ``degraded`` and its scores say nothing of length
    any more: then the fit is flat. It is fitted anew as outcomes come, from after the change on,
    and ends when the version is ok and the ranker's own quantiles agree with the fit.

    :meth:`apply` is safe beside the others.
    """

    def __init__(self, config: RecalibrateConfig) -> None:
        self._config = config
        self._versions: dict[Key, _Version] = {}
        self._fitted: Mapping[Key, Refit] = {}
        self._gaps: dict[Key, _Gap] = {}

    @property
    def active(self) -> Mapping[Key, Refit]:
        """What is in force, by version."""
        return self._fitted

    @property
    def flat(self) -> frozenset[Key]:
        return frozenset(key for key, fitted in self._fitted.items() if fitted.flat)

    def apply(self, version: Key, forecasts: Sequence[Forecast]) -> list[Forecast]:
        """``forecasts`` of one call, with the quantiles in force."""
        fitted = self._fitted.get(version)
        same = [f for f in forecasts if fitted and f.levels == fitted.calibration.levels]
        if fitted is None or not forecasts or len(same) != len(forecasts):
            return list(forecasts)
        quantiles = fitted.quantiles(forecasts)
        said = [
            replace(forecast, quantiles=tuple(row))
            for forecast, row in zip(forecasts, quantiles.tolist(), strict=True)
        ]
        self._note(version, forecasts, said)
        return said

    def due(self, whole: Standing, now: float) -> bool:
        """Whether it is time, at second ``now``, to :meth:`look` at a version: cheap."""
        known = self._versions.get(whole.key)
        if known is None:
            return whole.state is not State.OK
        rested = abs(now - known.when) >= self._config.rest or whole.of_order > known.state
        return rested and whole.outcomes - known.at >= self._config.every

    def look(self, whole: Standing, outcomes: Sequence[Outcome], now: float) -> list[Change]:
        """Fit anew, start or end, by the recent ``outcomes`` of the version; some 40 ms."""
        known = self._versions.setdefault(whole.key, _Version())
        known.at, known.when, known.state = whole.outcomes, now, whole.of_order
        active = known.fitted is not None
        if whole.state is State.OK and not active:
            del self._versions[whole.key]
            return []
        gap = self._gaps.get(whole.key, _Gap())
        if whole.state is State.OK and gap.closed(self._config):
            return self._end(whole.key, "the ranker's own quantiles are right again")
        rows = self._rows(whole, outcomes)
        decayed = whole.of_order >= State.DEGRADED
        fitted = refit(rows, self._config.least, order=not decayed)
        if fitted is None:
            return []
        if not active and not fitted.flat and not out_of_true(rows, self._config.off):
            return []
        known.fitted = fitted
        self._fitted = {**self._fitted, whole.key: fitted}
        if active:
            return []
        self._gaps.pop(whole.key, None)
        why = (
            "scores say nothing of length any more: all get the quantiles of recent answers"
            if fitted.flat
            else "the quantiles given out did not cover recent answers"
        )
        advice = "retrain or recalibrate on recent outcomes; until then it goes on by itself"
        return [
            Change(whole.key, QUANTILES, RAW, FITTED, f"{why} ({fitted.rows} outcomes)", advice)
        ]

    def forget(self, alive: Sequence[Key]) -> list[Change]:
        """Only ``alive`` versions are in use now."""
        known = set(alive)
        changes = []
        for key in [key for key in self._versions if key not in known]:
            if self._versions[key].fitted is not None:
                changes += self._end(key, "the version is not in use any more")
            self._versions.pop(key, None)
        return changes

    def _end(self, key: Key, why: str) -> list[Change]:
        self._versions.pop(key, None)
        self._gaps.pop(key, None)
        self._fitted = {k: v for k, v in self._fitted.items() if k != key}
        return [Change(key, QUANTILES, FITTED, RAW, why, "nothing to do")]

    def _rows(self, whole: Standing, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The newest outcomes that came after what changed."""
        scored = [o for o in outcomes if o.forecast is not None][-self._config.window :]
        count = since_change(scored)
        if whole.since is not None and whole.since >= self._config.least:
            count = min(count, whole.since)
        return scored[-count:] if count else []

    def _note(self, version: Key, raw: Sequence[Forecast], said: Sequence[Forecast]) -> None:
        gaps = [float(np.mean(_logs(said, level) - _logs(raw, level))) for level in (0.5, 0.9)]
        gap = self._gaps.get(version, _Gap())
        answers = gap.answers + len(raw)
        share = max(len(raw) / answers, 1.0 - (1.0 - 1.0 / self._config.answers) ** len(raw))
        p50, p90 = (old + share * (new - old) for old, new in zip((gap.p50, gap.p90), gaps,
                                                                  strict=True))  # fmt: skip
        self._gaps[version] = _Gap(answers, p50, p90)


def _logs(forecasts: Sequence[Forecast], level: float) -> Floats:
    return np.log1p(np.array([f.quantile(level) for f in forecasts], dtype=np.float64))
