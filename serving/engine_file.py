"""All of an engine's configuration in one TOML file; see :data:`EXAMPLE`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.core.budgets import Budget
from serving.config_keys import NUMBER, TABLE, check_kind, unknown_key

EXAMPLE = """
# Every option of `shortfirst engine`, with underscores; what the command line says goes first.
model = "smollm2-135m-instruct"
max_num_seqs = 16
policy = "boost"
fair_tenants = true

[tenants]                                  # as --tenant-budget; "*": every tenant without one
acme = {rate = 500, burst = 20000}         # tokens per second, tokens saved at most
"*" = {rate = 50, burst = 2000}

[[lane]]                                   # as in a file for --lanes
name = "chat"
share = 3
slo = {ttft = 2}

[[lane]]
name = "batch"
policy = "fcfs"
precedence = 1
"""

_BUDGET = {"rate": NUMBER, "burst": NUMBER}


@dataclass(frozen=True, slots=True)
class EngineFile:
    """``options`` by name, of the kinds that the command wants. ``lanes``: ``[[lane]]`` tables as
    they stand, ``None`` without any. ``tenants``: budgets by name."""

    options: Mapping[str, Any] = field(default_factory=dict)
    lanes: object = None
    tenants: Mapping[str, Budget] = field(default_factory=dict)


def read_engine_file(path: Path, kinds: Mapping[str, str]) -> EngineFile:
    """Read a file whose options may be ``kinds``: what each value must be, by name.

    Raises ``ValueError`` naming the file and the key, ``OSError`` when it cannot be read.
    """
    try:
        return parse_engine_file(path.read_text(encoding="utf-8"), kinds)
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def parse_engine_file(text: str, kinds: Mapping[str, str]) -> EngineFile:
    """As :func:`read_engine_file`, of what is in the file. Raises ``ValueError``."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not TOML: {error}") from None
    lanes, tenants = content.pop("lane", None), content.pop("tenants", {})
    if lanes is not None and "lanes" in content:
        raise ValueError("has both [[lane]] and lanes, the path of a file of them; keep one")
    for key, value in content.items():
        if key not in kinds:
            raise unknown_key("the file", key, [*kinds, "lane", "tenants"])
        check_kind("the file", key, value, kinds[key])
    return EngineFile(content, lanes, _tenants(tenants))


def _tenants(tables: object) -> dict[str, Budget]:
    check_kind("the file", "tenants", tables, TABLE)
    assert isinstance(tables, dict)
    return {name: _budget(table, f"tenant {name!r}") for name, table in tables.items()}


def _budget(table: object, where: str) -> Budget:
    if not isinstance(table, dict):
        raise ValueError(f"{where} must look like {{rate = 500, burst = 20000}}")
    for key, value in table.items():
        if key not in _BUDGET:
            raise unknown_key(where, key, _BUDGET)
        check_kind(where, key, value, _BUDGET[key])
    for key in _BUDGET:
        if key not in table:
            raise ValueError(f"{where} must have a {key}")
    try:
        return Budget(float(table["rate"]), float(table["burst"]))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
