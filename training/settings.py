"""Settings of a file into frozen dataclasses, names and kinds checked, and flat into a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, get_type_hints


def build(kind: Any, where: str, values: Mapping[str, Any]) -> Any:
    """A ``kind`` from nested tables, as TOML gives them; what is absent keeps its default.

    Raises ``ValueError`` that names the setting, as ``where.name`` or, inside a table, as
    ``table.name``: when it is unknown or its value is of another kind.
    """
    hints = get_type_hints(kind)
    names = {f.name for f in fields(kind)}
    if unknown := sorted(set(values) - names):
        raise ValueError(f"{where}.{unknown[0]} is unknown; known are {', '.join(sorted(names))}")
    return kind(**{name: _value(hints[name], where, name, given) for name, given in values.items()})


def flat(config: Any) -> dict[str, object]:
    """Settings by name, those of a table inside as ``table.name``: what a run record takes."""
    found: dict[str, object] = {}
    for name, value in asdict(config).items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": setting for inner, setting in value.items()}
        else:
            found[name] = value
    return found


def _value(hint: Any, where: str, name: str, value: Any) -> Any:
    if is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}.{name} must be a table")
        return build(hint, name, value)
    if hint == tuple[float, ...]:
        if not isinstance(value, list | tuple) or not all(map(_number, value)):
            raise _wrong(where, name, "a list of numbers", value)
        return tuple(float(item) for item in value)
    if hint is float:
        if not _number(value):
            raise _wrong(where, name, "a number", value)
        return float(value)
    if hint is int and (not isinstance(value, int) or isinstance(value, bool)):
        raise _wrong(where, name, "a whole number", value)
    if hint is str and not isinstance(value, str):
        raise _wrong(where, name, "text", value)
    return value


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(where: str, name: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"{where}.{name} must be {wanted}, got {value!r}")
