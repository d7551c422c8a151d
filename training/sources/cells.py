"""One cell of a row, checked. Errors name row and column, never what a text says."""

from __future__ import annotations

import math
from typing import Any

from ranker.types import FinishReason
from training.split import RESERVED, SPLITS, VALIDATION

_REASONS = {str(known): known for known in FinishReason}


def missing(value: Any) -> bool:
    """Whether a cell is empty: absent, null, an empty text or, of pandas, NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def text(where: str, column: str, value: Any) -> str:
    """A prompt. Raises ``ValueError`` for anything but text that is more than blanks."""
    if value is None:
        raise ValueError(f"{where}: column {column} is missing or empty")
    if not isinstance(value, str):
        raise ValueError(f"{where}: column {column} must be text, got {type(value).__name__}")
    if not value or value.isspace():
        raise ValueError(f"{where}: column {column} holds only blanks; leave the row out")
    return value


def count(where: str, column: str, value: Any) -> int:
    """A number of tokens. Raises ``ValueError`` for one that is negative, not whole or NaN."""
    if value is None or value == "":
        raise ValueError(f"{where}: column {column} is missing or empty")
    given = _number(value) if isinstance(value, str) else value
    # Tables may hold whole numbers as floats; NaN and infinities are not whole.
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        shown = f"{given}" if isinstance(given, int | float) else type(value).__name__
        raise ValueError(
            f"{where}: column {column} must be a whole number of at least 0, got {shown}"
        )
    return given


def _number(value: str) -> object:
    try:
        return float(value) if not value.isdecimal() else int(value)
    except ValueError:
        return value


def reason(where: str, column: str, value: Any) -> FinishReason:
    """``stop`` when empty. Raises ``ValueError`` for an unknown one."""
    if missing(value):
        return FinishReason.STOP
    known = _REASONS.get(value) if isinstance(value, str) else None
    if known is None:
        raise ValueError(f"{where}: column {column} must be one of {', '.join(_REASONS)}")
    return known


def split(where: str, column: str, value: Any) -> str:
    """``val`` is short for ``validation``. Raises ``ValueError`` for an unknown one."""
    if value == "val":
        return VALIDATION
    if value == RESERVED or value in SPLITS:
        return str(value)
    raise ValueError(f"{where}: column {column} must be one of {', '.join((*SPLITS, RESERVED))}")
