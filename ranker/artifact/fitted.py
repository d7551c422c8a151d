"""Files of what is fitted to a model's predictions: calibrations, scales, novelty.

Each says of itself what it is made of, arrays and JSON numbers under a kind
(:class:`ranker.calibrator.Calibrator`), so that a new kind needs nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from ranker.artifact.content import Array, Bundle, Files, json_bytes, tensor_bytes

_NUMBERS, _ARRAYS = "fitted.json", "fitted.safetensors"


class Fitted(Protocol):
    """What can be taken apart into arrays and numbers, and put together again."""

    kind: ClassVar[str]

    def arrays(self) -> dict[str, Any]: ...

    def numbers(self) -> dict[str, Any]: ...

    @classmethod
    def restore(cls, arrays: Mapping[str, Any], numbers: Mapping[str, Any]) -> Self: ...


_T = TypeVar("_T", bound=Fitted)


def write(fitted: Fitted) -> Files:
    files = {_NUMBERS: json_bytes({"kind": fitted.kind, "numbers": fitted.numbers()})}
    arrays: dict[str, Array] = {k: np.asarray(v) for k, v in fitted.arrays().items()}
    return files | ({_ARRAYS: tensor_bytes(arrays)} if arrays else {})


def read(bundle: Bundle, kinds: Mapping[str, type[_T]]) -> _T:
    """Of one of ``kinds``. Raises :class:`ranker.artifact.ArtifactError` naming the file."""
    stored = bundle.json(_NUMBERS)
    kind, numbers = stored.get("kind"), stored.get("numbers")
    if kind not in tuple(kinds):
        bundle.refuse(_NUMBERS, f"unknown kind {kind!r:.40}; this version reads {', '.join(kinds)}")
    if not isinstance(numbers, dict):
        bundle.refuse(_NUMBERS, "numbers must be an object")
    arrays = bundle.arrays(_ARRAYS) if _ARRAYS in bundle.files else {}
    try:
        return kinds[kind].restore(arrays, numbers)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        bundle.refuse(_NUMBERS, f"with its arrays no {kind} ({type(error).__name__}: {error})")
