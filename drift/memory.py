"""What series are measured against, for those that are over and may come back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

from drift.features import Baselines
from drift.key import Key
from drift.reference import Reference
from drift.series import Series

_Value = TypeVar("_Value")

#: References that are remembered, of which each has some hundred numbers, and distributions, which
#: have some twenty thousand. What was known at the start stays until so many have come after it.
_REFERENCES, _BASELINES = 512, 128


class Memory:
    """By series; what has been over the longest is forgotten first. Not for several threads."""

    def __init__(
        self, references: Mapping[Key, Reference], baselines: Mapping[Key, Baselines]
    ) -> None:
        self._references = OrderedDict(references)
        self._baselines = OrderedDict(baselines)

    @property
    def references(self) -> dict[Key, Reference]:
        """A copy of all."""
        return dict(self._references)

    def of(self, key: Key) -> tuple[Reference | None, Baselines | None]:
        """What ``key`` was measured against."""
        return self._references.get(key), self._baselines.get(key)

    def keep(self, series: Series) -> None:
        """``series`` is over."""
        _keep(self._references, series.key, series.stream.reference, _REFERENCES)
        _keep(self._baselines, series.key, series.baselines, _BASELINES)


def _keep(known: OrderedDict[Key, _Value], key: Key, value: _Value | None, most: int) -> None:
    if value is not None:
        known.pop(key, None)
        known[key] = value
        while len(known) > most:
            known.popitem(last=False)
