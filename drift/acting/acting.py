"""All actions on what the monitor knows, in one place."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from drift.acting.change import Change
from drift.acting.config import ActConfig
from drift.acting.recalibration import Recalibration, Recent
from drift.acting.standing import Standing
from drift.acting.trust import Trust
from drift.key import Key
from drift.states import State
from ranker.types import Forecast, Outcome

log = logging.getLogger(__name__)


class Acting:
    """:meth:`look` now and then from one thread, in which it may take 40 ms for each version in
    trouble; :meth:`stamp` for every answer, from any: 4 us a call, and while quantiles are fitted
    60 more for one prompt, 15 a prompt for many.
    """

    def __init__(self, config: ActConfig | None = None) -> None:
        self.config = config or ActConfig()
        self.trust = Trust(self.config)
        self.recalibration = Recalibration(self.config.recalibration)
        self._whole: dict[Key, State] = {}

    def look(self, found: Sequence[Standing], recent: Recent, now: float) -> list[Change]:
        """Decide by where every series stands at second ``now``; what is done otherwise from now
        on. ``recent`` gives the recent outcomes of a version, and is asked where quantiles are
        fitted anew alone."""
        wholes = [standing for standing in found if not standing.key.sliced]
        changes: list[Change] = []
        if self.config.recalibrate:
            changes += self._recalibrate(wholes, recent, now)
        self._whole = {whole.key: whole.of_order for whole in wholes}
        if self.config.shrink or self.config.fallback:
            flat = self.recalibration.flat if self.config.fallback else frozenset()
            changes += self.trust.update(found, flat)
        return changes

    def _recalibrate(self, wholes: Sequence[Standing], recent: Recent, now: float) -> list[Change]:
        """Trouble with a fit leaves what is in force, and keeps nobody's trust from falling."""
        changes = self.recalibration.forget([whole.key for whole in wholes])
        for whole in wholes:
            if not self.recalibration.due(whole, now):
                continue
            try:
                changes += self.recalibration.look(whole, self._rows(whole, recent), now)
            except Exception:
                log.exception("quantiles of %s could not be fitted", whole.key)
        return changes

    def trusts(self) -> dict[Key, float]:
        """In force now, by series."""
        return self.trust.known

    def stamp(
        self, served_model: str, lane: str, tenant: str, forecasts: Sequence[Forecast]
    ) -> list[Forecast]:
        """``forecasts`` of one ranker version, as they are to be given out."""
        if not forecasts:
            return []
        version = Key(served_model, forecasts[0].ranker, forecasts[0].version)
        said = list(forecasts)
        if not self._spared(version, lane, tenant):
            said = self.recalibration.apply(version, said)
        trust = self.trust.of(version, lane, tenant)
        return said if trust == 1.0 else [replace(forecast, trust=trust) for forecast in said]

    def _spared(self, version: Key, lane: str, tenant: str) -> bool:
        """Whether a slice is ok while the order of its version has decayed: then the fit is not to
        it."""
        if self._whole.get(version, State.OK) < State.DEGRADED:
            return False
        return version.part(lane, tenant) in self.trust.healthy

    def _rows(self, whole: Standing, recent: Recent) -> list[Outcome]:
        return [
            outcome
            for outcome in recent(whole.key)
            if whole.of_order < State.DEGRADED
            or whole.key.part(outcome.lane, outcome.tenant) not in self.trust.healthy
        ]
