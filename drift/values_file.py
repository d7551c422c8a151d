"""What replays gave, on disk: a restart does not forget what was usual, status need not replay."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drift.efficiency import Shares, Worth
from drift.files import write_whole
from drift.key import Key
from drift.saved import Saved
from drift.valuer import Known, Valued


def values_path(outcomes: Path) -> Path:
    """Where the values of a store of outcomes are kept: beside it."""
    return outcomes.with_name(outcomes.name + ".values.json")


def save_values(path: Path, values: Mapping[Key, Known]) -> None:
    """Write ``values`` as JSON, whole or not at all. Raises ``OSError``."""
    items = [{"key": asdict(key), **asdict(known)} for key, known in values.items()]
    write_whole(path, json.dumps(_plain(items), allow_nan=False))


def load_values(path: Path) -> dict[Key, Known]:
    """Read what :func:`save_values` wrote; none when there is no file.

    Raises ``ValueError`` when it holds anything else.
    """
    if not path.exists():
        return {}
    try:
        return {
            Key(**item["key"]): Known(
                tuple(_valued(one) for one in item["values"]),
                tuple(map(float, item["good"])),
                None if item["saved"] is None else Saved(**item["saved"]),
            )
            for item in json.loads(path.read_text(encoding="utf-8"))
        }
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} does not hold what replays gave: delete it") from error


def _valued(item: Mapping[str, Any]) -> Valued:
    worth = item["worth"]
    return Valued(
        float(item["at"]),
        int(item["outcome"]),
        Worth(
            Shares(*(_number(worth["efficiency"][name]) for name in ("e2el", "per_token"))),
            _pair(worth["e2el"]),
            _pair(worth["per_token"]),
            _number(worth["p99_ratio"]),
        ),
    )


def _pair(values: Any) -> tuple[float, float]:
    low, high = values
    return _number(low), _number(high)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _plain(value: Any) -> Any:
    """NaN becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
