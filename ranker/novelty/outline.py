"""The outline of a text: how it is written, with what it is about left out."""

from __future__ import annotations

import re

# A break takes what is blank behind it along, never before it: that would be quadratic.
_PIECE = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|\d+|\n\s*|[^\w\s]|\w+")
_WORDS = (
    "the a an and or but if of to in for on at by with from as is are was were be been do does did "
    "can could would will should may might must have has had not no this that these those it its "
    "they them their he she his her i you your we our me my us what which who whom whose how why "
    "when where there here all any each every some most more than then so please let's make about "
    "into over between same only such one two three following given write using use out up"
)
_FUNCTION_WORDS = frozenset(_WORDS.split())
_BEGIN, _END = "<", ">"


def outline(text: str) -> list[str]:
    """``text`` between marks of its two ends, piece by piece.

    Function words, marks and line breaks stay; of other words stays whether and how they are
    capitalised, of numbers up to four digits of their length. ``"Name 12 rivers."`` becomes
    ``< Xx 99 x . >``. No name and no subject is left in it.
    """
    return [_BEGIN, *map(_shape, _PIECE.findall(text)), _END]


def _shape(piece: str) -> str:
    first = piece[0]
    if first == "\n":
        return "\n\n" if piece.count("\n") > 1 else "\n"
    if piece.isdigit():
        return "9" * min(4, len(piece))
    if not (piece.isascii() and first.isalpha()):
        return piece if len(piece) == 1 else "w"
    if (low := piece.lower()) in _FUNCTION_WORDS:
        return low if first == low[0] else f"^{low}"
    if first == low[0]:
        return "x"
    return "X" if piece.isupper() else "Xx"
