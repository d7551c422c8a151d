"""Engines to simulate, by name: what their steps cost, how large they are, and how we know."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.hardware import A100, H100, LLAMA3_8B, LLAMA3_70B, derive

_SIZES = ("max_num_seqs", "max_num_batched_tokens", "block_size", "num_blocks", "host_blocks")


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One engine. Sizes as in :class:`SchedulerConfig`; ``source``: where the numbers are from.

    Not to be confused with :mod:`engine.profile`, which times an executor so that a cost model can
    be fitted: what it finds is saved as one of these.

    Raises ``ValueError`` naming the field.
    """

    name: str
    cost: CostModel
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    num_blocks: int
    host_blocks: int
    source: str

    def __post_init__(self) -> None:
        if not self.name or not self.source:
            raise ValueError("name and source must not be empty: say where the numbers are from")
        _ = self.config  # which checks the sizes

    @property
    def config(self) -> SchedulerConfig:
        """The scheduler of this engine; :func:`dataclasses.replace` makes variants of it."""
        return SchedulerConfig(
            self.max_num_seqs,
            self.max_num_batched_tokens,
            self.block_size,
            self.num_blocks,
            host_blocks=self.host_blocks,
            cost=self.cost,
        )

    def save(self, path: Path) -> None:
        """Write .toml or .json, by the suffix; :func:`load` reads it back unchanged."""
        table = asdict(self)
        if path.suffix == ".json":
            path.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
        elif path.suffix == ".toml":
            cost = table.pop("cost")
            lines = [f"{key} = {_toml(value)}" for key, value in table.items()]
            lines += ["", "[cost]  # seconds; see engine.core.costs.CostModel"]
            lines += [f"{key} = {_toml(value)}" for key, value in cost.items()]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        else:
            raise ValueError(f"{path.name} must end in .toml or .json")


def load(path: Path) -> EngineProfile:
    """Read a profile from .toml or .json.

    Raises ``ValueError`` on another suffix, a file that does not parse, an unknown or missing
    field, or a number out of range; ``OSError`` when the file cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".json":
            table = json.loads(text)
        elif path.suffix == ".toml":
            table = tomllib.loads(text)
        else:
            raise ValueError(f"{path.name} must end in .toml or .json")
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path.name} does not parse: {error}") from None
    known = [field.name for field in fields(EngineProfile)]
    costs = [field.name for field in fields(CostModel)]
    _check_keys(table, known, path.name)
    _check_keys(table["cost"], costs, f"{path.name} [cost]")
    for key in _SIZES:
        if type(table[key]) is not int:
            raise ValueError(f"{path.name}: {key} must be a whole number, got {table[key]!r}")
    for key in costs:
        if type(table["cost"][key]) not in (int, float):
            raise ValueError(f"{path.name}: cost.{key} must be seconds")
    try:
        return EngineProfile(**{**table, "cost": CostModel(**table["cost"])})
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def named(name: str) -> EngineProfile:
    """A profile of :data:`PROFILES`. Raises ``ValueError`` that lists them."""
    if name not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {name!r}")
    return PROFILES[name]


def _check_keys(table: object, known: list[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} must be a table")
    if unknown := [key for key in table if key not in known]:
        raise ValueError(f"{where} has the unknown field {unknown[0]!r}")
    if missing := [key for key in known if key not in table]:
        raise ValueError(f"{where} lacks the field {missing[0]!r}")


def _toml(value: object) -> str:
    # A JSON string is a TOML basic string; Python's floats read back exactly in both.
    return json.dumps(value, ensure_ascii=False)


def _toy(slots: int) -> EngineProfile:
    return EngineProfile(
        name=f"toy-{slots}",
        cost=CostModel(base=0.025, decode=0.0003, prefill=0.0002, swap=1e-5),
        max_num_seqs=slots,
        max_num_batched_tokens=2048,
        block_size=16,
        num_blocks=math.ceil(slots * 8192 / 16),
        host_blocks=0,
        source="Invented, round numbers: a 7 B model in bfloat16 on a card of some 600 GB/s and "
        "120 TFLOP/s reads its weights in about 25 ms and computes 5,000 tokens a second. Memory "
        "is ample and context costs nothing, so that order alone decides.",
    )


def _derived() -> list[EngineProfile]:
    found = []
    for name, model, device, count in (
        ("llama3-8b-a100", LLAMA3_8B, A100, 1),
        ("llama3-8b-h100", LLAMA3_8B, H100, 1),
        ("llama3-70b-8xa100", LLAMA3_70B, A100, 8),
    ):
        result = derive(model, device, count, seqs=256, tokens=2048, block_size=16)
        found.append(
            EngineProfile(
                name, result.cost, 256, 2048, 16, result.num_blocks, 0, source=result.source
            )
        )
    return found


_SMOLLM2 = EngineProfile(
    name="smollm2-cpu",
    cost=CostModel(base=0.0308, decode=0.00204, prefill=0.00101),
    max_num_seqs=16,
    max_num_batched_tokens=512,
    block_size=16,
    num_blocks=8192,
    host_blocks=0,
    source="Measured by engine.profile: the bundled SmolLM2-135M-Instruct in bfloat16 on one "
    "thread of an EPYC core. Context was not fitted.",
)

#: Bundled profiles by name.
PROFILES: dict[str, EngineProfile] = {
    profile.name: profile for profile in [_SMOLLM2, *_derived(), *map(_toy, (32, 64, 128))]
}
