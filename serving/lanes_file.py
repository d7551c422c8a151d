"""Lanes as an operator writes them down, in TOML; see :data:`EXAMPLE`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.lanes import LaneConfig, Slo
from engine.core.policies import Setting
from serving.config_keys import FLAG, NUMBER, TABLE, TEXT, WHOLE, check_kind, unknown_key

EXAMPLE = """
[[lane]]
name = "chat"                  # requests that name no lane go to the first
policy = "boost"               # default: the engine's --policy
setting = "fast"               # of boost; default: the engine's --boost
share = 3                      # of the engine, against busy lanes of the same precedence
precedence = 0                 # lower goes first, strictly
max_wait = 60                  # seconds until a request goes first; default: --max-wait
max_waiting = 500              # one more is refused
reclaim = true                 # takes lent slots back instead of waiting for them
slo = {ttft = 2, tpot = 0.2}   # seconds; e2el too
"""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """A lane before its policy is built: that takes a cost model, which takes a model."""

    config: LaneConfig
    policy: str = "boost"
    setting: Setting = Setting.FAST


_LANE = {
    "name": TEXT, "policy": TEXT, "setting": TEXT, "share": NUMBER, "precedence": WHOLE,
    "max_wait": NUMBER, "max_waiting": WHOLE, "reclaim": FLAG, "slo": TABLE,
}  # fmt: skip
_SLO = {"ttft": NUMBER, "tpot": NUMBER, "e2el": NUMBER}


def choose_lanes(path: Path | None, tables: object, default: LaneSpec) -> tuple[LaneSpec, ...]:
    """Those of a file of lanes, else of a configuration's ``[[lane]]`` tables, else one.

    Raises as :func:`read_lanes`.
    """
    if path is not None:
        return read_lanes(path, default)
    return (default,) if tables is None else lanes_of(tables, default)


def read_lanes(path: Path, default: LaneSpec) -> tuple[LaneSpec, ...]:
    """The lanes of a file; what one leaves out is as in ``default``.

    Raises ``ValueError`` naming the file, the lane and the key; ``OSError`` when it cannot be read.
    """
    try:
        return parse_lanes(path.read_text(encoding="utf-8"), default)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def parse_lanes(text: str, default: LaneSpec) -> tuple[LaneSpec, ...]:
    """As :func:`read_lanes`, of what is in the file. Raises ``ValueError``."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not TOML: {error}") from None
    for key in content:
        if key != "lane":
            raise unknown_key("the file", key, ["lane"])
    return lanes_of(content.get("lane"), default)


def lanes_of(tables: object, default: LaneSpec) -> tuple[LaneSpec, ...]:
    """The lanes of a file's ``[[lane]]`` tables, as they were read. Raises ``ValueError``."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("lanes are tables that begin with [[lane]]")
    if not tables:
        raise ValueError("must hold at least one [[lane]]")
    lanes = tuple(_lane(table, number, default) for number, table in enumerate(tables, 1))
    names = [lane.config.name for lane in lanes]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"lane {twins[0]!r} is there twice; give each a name of its own")
    return lanes


def _lane(table: dict[str, Any], number: int, default: LaneSpec) -> LaneSpec:
    name = table.get("name")
    where = f"lane {name!r}" if isinstance(name, str) else f"lane {number}"
    _check(table, _LANE, where)
    if name is None:
        raise ValueError(f"{where} must have a name")
    given = dict(table)
    policy, setting = given.pop("policy", default.policy), given.pop("setting", default.setting)
    if setting not in list(Setting):
        raise ValueError(f"{where}: setting must be one of {', '.join(Setting)}, got {setting!r}")
    if "slo" in given:
        _check(given["slo"], _SLO, f"{where}: slo")
        given["slo"] = _built(Slo, given["slo"], where)
    given.setdefault("max_wait", default.config.max_wait)
    return LaneSpec(_built(LaneConfig, given, where), policy, Setting(setting))


def _built(kind: type, values: Mapping[str, Any], where: str) -> Any:
    try:
        return kind(**values)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(where) else f"{where}: {text}") from None


def _check(table: Mapping[str, Any], known: Mapping[str, str], where: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise unknown_key(where, key, known)
        check_kind(where, key, value, known[key])
