"""Bytes of an artifact and what they mean: JSON, tensors, text. Nothing here runs what it reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ranker.artifact.errors import ArtifactError

#: Relative names, ``/`` between folders, and what the files hold.
Files = dict[str, bytes]
Array = NDArray[Any]


def json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def tensor_bytes(arrays: Mapping[str, Array]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def inside(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": data for name, data in files.items()}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files that were read and whose digests are right; ``where`` is their folder, for messages.

    Every method raises :class:`ArtifactError` naming the file when it is absent or is not what
    was asked for.
    """

    where: str
    files: Mapping[str, bytes]

    def within(self, folder: str) -> Bundle:
        """What lies in a sub-folder, under its own names."""
        start = f"{folder}/"
        found = {n.removeprefix(start): d for n, d in self.files.items() if n.startswith(start)}
        return Bundle(f"{self.where}/{folder}", found)

    def refuse(self, name: str, why: object) -> NoReturn:
        raise ArtifactError(f"{self.where}/{name}: {why}") from None

    def data(self, name: str) -> bytes:
        if name not in self.files:
            self.refuse(name, "not among the files of the ranker")
        return self.files[name]

    def text(self, name: str) -> str:
        try:
            return self.data(name).decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse(name, f"not UTF-8 ({error.reason} at byte {error.start})")

    def json(self, name: str) -> dict[str, Any]:
        """An object. Infinities, NaN and endless nesting are refused."""
        try:
            return parse_json(self.data(name))
        except ValueError as error:
            self.refuse(name, error)

    def arrays(self, name: str) -> dict[str, Array]:
        """Tensors by name; floating ones are finite."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        data = self.data(name)
        try:
            arrays = load(data)
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            self.refuse(name, f"no safetensors ({type(error).__name__}: {error})")
        for key, array in arrays.items():
            if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
                self.refuse(name, f"{key} holds a number that is not finite")
        return arrays

    def vectors(self, name: str, kinds: Mapping[str, type]) -> dict[str, Array]:
        """Exactly the tensors named, each a vector of its kind of number."""
        arrays = self.arrays(name)
        if set(arrays) != set(kinds):
            self.refuse(name, f"must hold {', '.join(kinds)}; it holds {', '.join(sorted(arrays))}")
        for key, kind in kinds.items():
            if arrays[key].dtype != np.dtype(kind) or arrays[key].ndim != 1:
                found = f"{arrays[key].dtype} of shape {arrays[key].shape}"
                self.refuse(name, f"{key} must be a vector of {np.dtype(kind)}, is {found}")
        return arrays


def parse_json(data: bytes) -> dict[str, Any]:
    """A JSON object. Raises ``ValueError`` saying what is wrong with it."""
    try:
        value = json.loads(data, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("not readable (nested too deeply)") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not readable ({error.reason} at byte {error.start})") from None
    except ValueError as error:
        raise ValueError(f"not readable ({error})") from None
    if not isinstance(value, dict):
        raise ValueError("not readable (must be a JSON object)")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not finite")
    return number
