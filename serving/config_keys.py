"""Keys of a configuration that somebody wrote by hand: which there are, and what was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

#: Kinds of value. A whole number is a number too, and true is none.
NUMBER, WHOLE, TEXT = "a number", "a whole number", "a string"
FLAG, TABLE, TEXTS = "true or false", "a table", "a list of strings"
_TYPES: dict[str, tuple[type, ...]] = {
    NUMBER: (int, float), WHOLE: (int,), TEXT: (str,), FLAG: (bool,), TABLE: (dict,),
    TEXTS: (list,),
}  # fmt: skip


def unknown_key(where: str, key: str, known: Collection[str]) -> ValueError:
    """Says that ``where`` has no such key, and which is nearest to it, or which there are."""
    near = get_close_matches(key.replace("-", "_"), known, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return ValueError(f"{where} has no key {key!r}; {meant}")


def check_kind(where: str, key: str, value: object, kind: str) -> None:
    """Raises ``ValueError`` naming the key unless ``value`` is of that ``kind``."""
    kinds = _TYPES[kind]
    right = isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)
    if right and kind == TEXTS:
        right = _all_texts(value)  # type: ignore[arg-type]
    if not right:
        raise ValueError(f"{where}: {key} must be {kind}, got {value!r}")


def _all_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
