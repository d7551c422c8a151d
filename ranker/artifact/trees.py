"""LightGBM's text format, looked through before LightGBM sees it.

Its reader trusts what it reads: it walks the trees by the numbers in the file without asking
whether they lead anywhere, so that a damaged file ends the process or reads foreign memory. Here
every tree must be one: each node and each leaf reached exactly once, every feature a column that
there is. Format: ``GBDT::SaveModelToString`` and ``Tree::ToString`` of LightGBM, version v4.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lightgbm import Booster

_END = "end of trees\n"
#: Per internal node and per leaf, with the kind of number that the reader expects.
_NODE = {
    "split_feature": int,
    "split_gain": float,
    "threshold": float,
    "decision_type": int,
    "left_child": int,
    "right_child": int,
    "internal_value": float,
    "internal_weight": float,
    "internal_count": int,
}
_LEAF = {"leaf_value": float, "leaf_weight": float, "leaf_count": int}
_HEADER = {
    *("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx"),
    *("objective", "feature_names", "feature_infos", "tree_sizes"),
}
#: What it was trained for; its reader takes any text and does not survive an empty one.
_OBJECTIVE = re.compile(r"[a-z][a-z0-9_]*(?: [a-z_]+:[0-9a-z.,_-]+)*")
#: All that is in it. Its reader ends a line at a carriage return and the whole text at NUL: either
#: would show it other lines than those that are looked at here.
_PLAIN = re.compile(r"[\n -~]*")
_SINGLE = {"num_leaves", "num_cat", "is_linear", "shrinkage"}
_MOST_LEAVES = 1 << 16


def text_of(booster: Booster) -> str:
    """The trees alone, without the parameters of training, which nothing here reads."""
    text = booster.model_to_string()
    return text[: text.index(_END) + len(_END)]


def booster(text: str, columns: int) -> Booster:
    """The trees of ``text``, which read ``columns`` columns.

    Raises ``ValueError`` saying what is wrong with the text.
    """
    from lightgbm import Booster
    from lightgbm.basic import LightGBMError

    check(text, columns)
    try:
        return Booster(model_str=text)
    except LightGBMError as error:
        raise ValueError(f"not readable by LightGBM ({error})") from None


def check(text: str, columns: int) -> None:
    """Raises ``ValueError`` unless ``text`` is a whole ensemble of numeric trees of one output."""
    if not _PLAIN.fullmatch(text):
        raise ValueError("holds a character that LightGBM does not write")
    head, _, body = text.partition("\n\n")
    first, *lines = head.split("\n")
    if first != "tree":
        raise ValueError("no LightGBM model")
    header = _fields(lines)
    if set(header) != _HEADER:
        raise ValueError(f"the header must hold {', '.join(sorted(_HEADER))} and nothing else")
    for name, expected in (("num_class", 1), ("num_tree_per_iteration", 1), ("version", "v4")):
        if header[name] != str(expected):
            raise ValueError(f"{name} must be {expected}, is {header[name][:40]!r}")
    if header["max_feature_idx"] != str(columns - 1):
        raise ValueError(f"trees were grown on other columns; there are {columns}")
    if any(len(header[k].split(" ")) != columns for k in ("feature_names", "feature_infos")):
        raise ValueError(f"feature_names and feature_infos must have {columns} entries")
    if not _OBJECTIVE.fullmatch(header["objective"]):
        raise ValueError("objective is none that LightGBM writes")
    start = 0
    for number, size in enumerate(_numbers("tree_sizes", header["tree_sizes"], int)):
        block = body[start : start + int(size)]
        if size < 1 or not block.startswith(f"Tree={number}\n"):
            raise ValueError(f"tree {number}: not where tree_sizes says; the file is damaged")
        try:
            _check_tree(block.rstrip("\n").split("\n")[1:], columns)
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from None
        start += int(size)
    if body[start:] != _END:
        raise ValueError("not just the end of trees where it should be; the file is damaged")


def _fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or name in fields:
            raise ValueError(f"a line that LightGBM does not write: {line[:40]!r}")
        fields[name] = value
    return fields


def _check_tree(lines: list[str], columns: int) -> None:
    fields = _fields(lines)
    if unknown := fields.keys() - _NODE.keys() - _LEAF.keys() - _SINGLE:
        raise ValueError(f"{min(unknown)[:40]!r} is not read here (categories, linear leaves)")
    if any(fields.get(name) != "0" for name in ("num_cat", "is_linear")):
        raise ValueError("categories and linear leaves are not read here")
    (leaves,) = _numbers("num_leaves", fields.get("num_leaves", ""), int, 1)
    if not 1 <= leaves <= _MOST_LEAVES:
        raise ValueError(f"num_leaves must lie between 1 and {_MOST_LEAVES}")
    _numbers("shrinkage", fields.get("shrinkage", ""), float, 1)
    leaves = int(leaves)
    # A tree of one leaf is written without the vectors of nodes that it does not have.
    for name, kind in _LEAF.items():
        if name == "leaf_value" or leaves > 1:
            _numbers(name, fields.get(name, ""), kind, leaves)
    nodes = {
        name: _numbers(name, fields.get(name, ""), kind, leaves - 1) for name, kind in _NODE.items()
    }
    if leaves == 1:
        return
    feature, decision = nodes["split_feature"], nodes["decision_type"]
    if feature.min() < 0 or feature.max() >= columns:
        raise ValueError(f"split_feature names a column that is not among the {columns}")
    # Bit 0: by category. Bit 1: default direction. Bits 2 and 3: what counts as missing.
    if np.any((decision < 0) | (decision > 10) | (decision & 1 == 1)):
        raise ValueError("decision_type is not that of a comparison of numbers")
    children = np.concatenate((nodes["left_child"], nodes["right_child"]))
    # Leaves are written as their complement. A node comes after the one it hangs on, so reaching
    # each exactly once leaves no room for a circle.
    expected = np.concatenate((np.arange(-leaves, 0), np.arange(1, leaves - 1)))
    above = np.tile(np.arange(leaves - 1), 2)
    if not np.array_equal(np.sort(children), expected) or np.any(
        (children >= 0) & (children <= above)
    ):
        raise ValueError("left_child and right_child make no tree")


def _numbers(name: str, text: str, kind: type, count: int | None = None) -> NDArray[Any]:
    """Numbers between blanks, finite; ``count`` of them when that is given."""
    words = text.split(" ") if text else []
    if count is not None and len(words) != count:
        raise ValueError(f"{name} must hold {count} numbers, holds {len(words)}")
    try:
        if "_" in text:  # Python's numbers may have it, LightGBM's end there
            raise ValueError
        if kind is int:
            return np.array([int(word) for word in words], dtype=np.int32)
        numbers = np.array([float(word) for word in words])
    except (ValueError, OverflowError):
        raise ValueError(f"{name} holds something that is no number") from None
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{name} holds a number that is not finite")
    return numbers
