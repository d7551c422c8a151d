"""A training run on disk: one safetensors file, its numbers as JSON in the header. No pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

_FORMAT = "shortfirst-encoder-run-1"
NAME = "checkpoint.safetensors"


@dataclass(slots=True)
class Course:
    """How far a run is: ``step`` done, the loss of each, ``(step, tau)`` of each evaluation."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    taus: list[tuple[int, float]] = field(default_factory=list)

    @property
    def best(self) -> tuple[int, float] | None:
        """The first evaluation with the highest tau; ``None`` before the first."""
        return max(self.taus, key=lambda entry: entry[1], default=None)

    @property
    def worse_since_best(self) -> int:
        """Evaluations in a row since the best one that were not better."""
        best = self.best
        return 0 if best is None else len(self.taus) - 1 - self.taus.index(best)


def save(
    path: Path, course: Course, identity: Mapping[str, object], tensors: Mapping[str, Tensor]
) -> None:
    """Write the whole run, so that whatever kills the process leaves this file or the last one.

    ``identity`` is everything that the result follows from; :func:`load` compares it.
    """
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    state = json.dumps({"course": asdict(course), "identity": dict(identity)})
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(whole, beside, metadata={"format": _FORMAT, "state": state})
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: Path, identity: Mapping[str, object]) -> tuple[Course, dict[str, Tensor]] | None:
    """The run at ``path``, or ``None`` when there is none.

    Raises ``ValueError`` when the file is damaged, or is of a run with another ``identity``: it
    names what differs.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            if header.get("format") != _FORMAT:
                raise ValueError("another format")
            state: dict[str, Any] = json.loads(header["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        course = state["course"]
        taus = [(int(step), float(tau)) for step, tau in course["taus"]]
        found = Course(int(course["step"]), [float(loss) for loss in course["losses"]], taus)
        there = dict(state["identity"])
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: not a checkpoint that this version can go on from ({error}); remove it to "
            f"start again"
        ) from None
    if unlike := _differences(there, json.loads(json.dumps(dict(identity)))):
        raise ValueError(
            f"{path}: a checkpoint of another run: {'; '.join(unlike)}. Go on with the same "
            f"settings and data, or remove it to start again"
        )
    return found, tensors


def _differences(there: Mapping[str, object], here: Mapping[str, object]) -> list[str]:
    return [
        f"{name} was {there.get(name)!r}, now {here.get(name)!r}"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]
