"""Which series are treated with caution: order seems lost there by outcomes as they end."""

from __future__ import annotations

from collections.abc import Sequence

from drift.acting.standing import Standing
from drift.key import Key
from drift.states import State


class Caution:
    """It begins when a series' early chart says so and ends when that is calm again; one that has
    come to ``degraded`` meanwhile keeps it until it is better, so that nothing flaps there.

    When a version's chart says so and none of its slices' does, it may be all of them: then it is
    ``general`` until the version's ends, whatever single slices say later.
    """

    def __init__(self) -> None:
        self._general: dict[Key, bool] = {}  # of versions that are treated so
        self._slices: set[Key] = set()
        self._said: set[Key] = set()

    def update(self, found: Sequence[Standing]) -> list[Key]:
        """By where every series stands now. Returns where it began or ended and nothing else says
        as much: not where there is an alarm, nor of slices while all of them are treated so."""
        self._slices = {s.key for s in found if s.key.sliced and s.charted and self._on(s)}
        explained = {key.whole for key in self._slices}
        self._general = {
            s.key: self._general.get(s.key, s.key not in explained)
            for s in found
            if not s.key.sliced and self._on(s)
        }
        moved = [
            s.key
            for s in found
            if s.of_order < State.DEGRADED and self._shown(s.key) is not (s.key in self._said)
        ]
        self._said = (self._said & {s.key for s in found}) ^ set(moved)
        return moved

    def of(self, key: Key) -> bool:
        """Whether a version as a whole, or a slice by itself, is treated so."""
        return key in (self._slices if key.sliced else self._general)

    def general(self, version: Key) -> bool:
        """Whether all slices of ``version`` are."""
        return self._general.get(version, False)

    def _shown(self, key: Key) -> bool:
        return self.of(key) and not (key.sliced and self.general(key.whole))

    def _on(self, standing: Standing) -> bool:
        stays = self.of(standing.key) and standing.of_order >= State.DEGRADED
        return standing.early or stays
