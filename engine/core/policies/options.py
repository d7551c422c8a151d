"""Policies as text: ``name`` or ``name:option=value,option=value``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, get_type_hints

Config = TypeVar("Config")


def split(text: str) -> tuple[str, dict[str, str]]:
    """Name and options. Raises ``ValueError`` when one is not ``key=value`` or comes twice."""
    name, colon, rest = text.partition(":")
    options: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = (each.strip() for each in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"policy {text!r}: options look like {name}:key=value, got {part!r}")
        if key in options:
            raise ValueError(f"policy {text!r} has option {key} twice")
        options[key] = value
    return name.strip(), options


def names(text: str) -> list[str]:
    """A comma-separated list of policies, whose options have commas too.

    >>> names("fcfs,ltr:starvation=100,period=5,srpt")
    ['fcfs', 'ltr:starvation=100,period=5', 'srpt']
    """
    found: list[str] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        goes_on = "=" in part.partition(":")[0]
        if goes_on and found:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def configured(config: Config, options: Mapping[str, str], policy: str) -> Config:
    """``config``, a frozen dataclass of numbers and flags, with ``options`` in it.

    Raises ``ValueError`` naming the option when it is unknown, is no number, or is out of range.
    """
    known = keys(config)
    hints = get_type_hints(type(config))
    changes: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known:
            said = f"its options are {', '.join(known)}" if known else "it has no options"
            raise ValueError(f"policy {policy} has no option {key!r}; {said}")
        changes[key] = _parsed(hints[key], value, f"option {key} of policy {policy}")
    return replace(config, **changes) if changes else config  # type: ignore[type-var]


def keys(config: Any) -> tuple[str, ...]:
    """Names of the options of a configuration; none when it is ``None``."""
    return () if config is None else tuple(each.name for each in fields(config))


def _parsed(kind: Any, value: str, what: str) -> bool | int | float | None:
    if kind is bool:
        if value not in ("yes", "no"):
            raise ValueError(f"{what} must be yes or no, got {value!r}")
        return value == "yes"
    if value == "none" and kind == float | None:
        return None
    try:
        number = int(value) if kind is int else float(value)
    except ValueError:
        said = "a whole number" if kind is int else "a number"
        raise ValueError(f"{what} must be {said}, got {value!r}") from None
    if math.isnan(number):
        raise ValueError(f"{what} must be a number, got {value!r}")
    return number
