"""How much say a scheduler leaves to the forecasts of each slice, by how they came true of late."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from drift.acting.caution import Caution
from drift.acting.change import CAUTION, TRUST, Change
from drift.acting.config import ActConfig
from drift.acting.level import STEP, Level
from drift.acting.standing import Standing
from drift.key import OTHER, Key
from drift.states import State

#: Share of the usual worth that speaks for order as it was.
_WORTH = 0.85

_EARLY = "by what ended last order seems lost, ahead of its turn in order of arrival"
_CALM = "by what ended last it does not any more"
_WAIT = "nothing to do: an alarm follows if it is so, else trust returns by itself"


@dataclass(slots=True)
class _Trouble:
    """A version that is not ok. ``general``: no slice of it explains that. ``since``: outcomes of
    each slice when it began. ``vouched``: slices that answer for themselves in spite of it."""

    state: State
    general: bool
    since: dict[Key, int]
    vouched: set[Key] = field(default_factory=set)


class Trust:
    """Of every served model x ranker version and its slices; pure, and not safe for several threads
    but for :meth:`of`.

    It goes by the state that lost order accounts for: forecasts that were missing, or lengths that
    changed as a whole, cost those that order nothing. It falls with that state at once and rises
    when it falls, which has its own hysteresis and dwell. Within ``warn``, where order is on its
    way out or back, it follows what is left, upwards after a dwell; within worse it never rises.
    While there is reason for :class:`Caution` it is ``caution`` at most, whatever the state: an
    alarm waits for order of arrival, and the tail does not.

    A slice with a chart of its own answers for itself, the others go by that of everybody else, or
    by their version's. When a version as a whole decays and none of its slices does as much, all of
    them have its trust until their own outcomes vouch for them: a tenth of the traffic takes ten
    times as long to show the same.
    """

    def __init__(self, config: ActConfig) -> None:
        self._config = config
        self._trust: dict[Key, float] = {}  # in force
        self._states: dict[Key, float] = {}  # what states alone leave
        self._caution = Caution()
        self._levels: dict[Key, Level] = {}
        self._troubles: dict[Key, _Trouble] = {}
        self._healthy: frozenset[Key] = frozenset()

    def of(self, version: Key, lane: str, tenant: str) -> float:
        """In [0, 1]; 1 for a version of which nothing is known."""
        known = self._trust
        found = known.get(version.part(lane, tenant))
        if found is None:
            found = known.get(_rest(version))
        return known.get(version, 1.0) if found is None else found

    @property
    def known(self) -> dict[Key, float]:
        """What was found last, by series."""
        return dict(self._trust)

    @property
    def healthy(self) -> AbstractSet[Key]:
        """Slices that answer for themselves and are ok."""
        return self._healthy

    def update(
        self, found: Sequence[Standing], flat: AbstractSet[Key] = frozenset()
    ) -> list[Change]:
        """Weigh where every series stands; what changed. ``flat``: versions whose forecasts, fitted
        anew, say the same of everybody: there is no order to go by."""
        wholes = {s.key: s for s in found if not s.key.sliced}
        moved: list[Key] = []
        if self._config.early and (self._config.shrink or self._config.fallback):
            moved = self._caution.update(found)
        now: dict[Key, float] = {}
        force: dict[Key, float] = {}
        reasons: dict[Key, str] = {}
        own: set[Key] = set(wholes)
        healthy = set()
        for key, whole in wholes.items():
            slices = [s for s in found if s.key.sliced and s.key.whole == key]
            trouble = self._trouble(whole, slices)
            now[key] = self._target(whole, key in flat)
            reasons[key] = _why(whole, key in flat)
            force[key] = self._careful(now[key], self._caution.of(key))
            # Once it is said what is lost, slices that answer for themselves are out of it.
            general = trouble is None and self._caution.general(key)
            for part in slices:
                if self._answers(part, trouble):
                    own.add(part.key)
                    now[part.key] = self._target(part, False)
                    reasons[part.key] = _why(part, False)
                    if part.of_order is State.OK:
                        healthy.add(part.key)
                    careful = general or self._caution.of(part.key)
                    force[part.key] = self._careful(now[part.key], careful)
                else:
                    now[part.key], force[part.key] = now[key], force[key]
        changes = self._changes(now, own, reasons) + self._cautions(moved, now)
        self._trust, self._states, self._healthy = force, now, frozenset(healthy)
        self._forget(wholes)
        return changes

    def _careful(self, trust: float, caution: bool) -> float:
        return min(trust, self._config.caution) if caution else trust

    def _cautions(self, moved: Iterable[Key], now: dict[Key, float]) -> list[Change]:
        """What is done otherwise where caution alone began or ended."""
        changes = []
        for key in moved:
            state, careful = now[key], self._careful(now[key], True)
            if state == careful:
                continue
            if self._caution.of(key):
                change = replace(_change(key, state, careful, _EARLY), advice=_WAIT)
            else:
                change = _change(key, careful, state, _CALM)
            changes.append(replace(change, cause=CAUTION))
        return changes

    def _target(self, standing: Standing, flat: bool) -> float:
        """By state, and by what is left of its worth."""
        state, level = standing.of_order, self._levels.get(standing.key)
        if state < State.DEGRADED and flat:  # until it is fitted anew
            return 0.0
        if state is State.OK:
            self._levels.pop(standing.key, None)
            return 1.0
        aim = 0.0 if flat else self._aim(standing)
        if level is None or state is not level.state:
            if level is not None and state > level.state:
                aim = min(aim, level.trust)
            level = self._levels[standing.key] = Level(state, aim)
        level.move(aim, standing.outcomes, self._most(standing))
        return level.trust

    def _most(self, standing: Standing) -> float:
        """What its state allows."""
        config, state = self._config, standing.of_order
        if not config.shrink and (state < State.FCFS or not config.fallback):
            return 1.0
        if state is State.WARN:
            return 1.0 if standing.calm and _holds(standing.worth) else config.warn
        return 0.0 if state is State.FCFS and config.fallback else config.degraded

    def _aim(self, standing: Standing) -> float:
        """And what is left of its worth; in ``warn`` no less than if it were worse."""
        most, worth = self._most(standing), standing.worth
        if worth is None or most == 1.0:
            return most
        left = round(math.floor(worth / STEP + 1e-9) * STEP, 2)
        if standing.of_order is State.WARN:
            left = max(self._config.degraded, left)
        return min(most, left)

    def _trouble(self, whole: Standing, slices: Iterable[Standing]) -> _Trouble | None:
        state = whole.of_order
        if state is State.OK:
            self._troubles.pop(whole.key, None)
            return None
        known = self._troubles.get(whole.key)
        if known is None or state > known.state:
            explained = any(s.charted and s.of_order >= state for s in slices)
            since = known.since if known is not None and known.general else {}
            if not since:
                since = {s.key: s.outcomes for s in slices}
            known = self._troubles[whole.key] = _Trouble(state, not explained, since)
        known.state = state
        return known

    def _answers(self, part: Standing, trouble: _Trouble | None) -> bool:
        """Whether a slice answers for itself."""
        if not part.charted:
            return False
        if trouble is None or not trouble.general or part.of_order >= trouble.state:
            return True
        since = trouble.since.setdefault(part.key, part.outcomes)
        if part.of_order is not State.OK:
            trouble.vouched.discard(part.key)
        elif part.calm and part.outcomes - since >= self._config.vouch:
            trouble.vouched.add(part.key)  # charts are not calm for ever, and it need not be
        return part.key in trouble.vouched

    def _changes(
        self, now: dict[Key, float], own: AbstractSet[Key], reasons: dict[Key, str]
    ) -> list[Change]:
        changes = []
        for key in sorted(own, key=lambda key: key.sliced):
            before = self._states.get(key)
            if before is None:
                before = self._states.get(key.whole, 1.0) if key.sliced else 1.0
            if now[key] != before:
                changes.append(_change(key, before, now[key], reasons[key]))
        for key, before in self._states.items():
            gone = key not in now and (not key.sliced or key.whole in now)
            if gone and before < 1.0:
                after = now.get(key.whole, 1.0)
                if after != before:
                    changes.append(_change(key, before, after, "it is not watched any more"))
        return changes

    def _forget(self, wholes: dict[Key, Standing]) -> None:
        for key in [key for key in self._troubles if key not in wholes]:
            del self._troubles[key]
        for key in [key for key in self._levels if key not in self._trust]:
            del self._levels[key]


def _rest(version: Key) -> Key:
    return Key(version.served_model, version.ranker, version.version, None, OTHER)


def _holds(worth: float | None) -> bool:
    """Whether a state says nothing of order: lengths changed as a whole, forecasts were missing."""
    return worth is None or worth >= _WORTH


def _why(standing: Standing, flat: bool) -> str:
    if flat:
        return "fitted to recent outcomes, the forecasts say the same of everybody"
    words = f"state {standing.state}"
    if standing.of_order is not standing.state:
        words += f", by order {standing.of_order}"
    if standing.of_order is not State.OK and standing.worth is not None:
        words += f", {standing.worth:.0%} of its usual worth left"
    return words


def _change(key: Key, before: float, after: float, why: str) -> Change:
    if after >= 1.0:
        advice = "nothing to do: forecasts order again"
    elif after > 0.0:
        advice = "the express tier and boosts are smaller by that much; retrain on recent outcomes"
    else:
        advice = "its requests are served in order of arrival; retrain on recent outcomes"
    return Change(key, TRUST, f"{before:g}", f"{after:g}", why, advice)
