"""Which rows train, which choose, which judge: decided by a hash, not by an accident of order."""

from __future__ import annotations

import hashlib
import re

TRAIN, VALIDATION, TEST, RESERVED = "train", "validation", "test", "reserved"
SPLITS = (TRAIN, VALIDATION, TEST)

_CHUNK = re.compile(r"_\d+$")


def plain(text: str) -> str:
    """``text`` in lower case with runs of blanks as one: texts equal in this are one prompt."""
    return " ".join(text.split()).lower()


def bucket(text: str) -> int:
    """One of 100 buckets of ``text``, the same for texts that :func:`plain` makes equal."""
    digest = hashlib.sha1(plain(text).encode("utf-8", "surrogatepass"))
    return int(digest.hexdigest()[:8], 16) % 100


def base_id(conversation_id: str) -> str:
    """The ShareGPT conversation that ``x_0`` and ``x_9`` are parts of: ``x``."""
    return _CHUNK.sub("", conversation_id)


def conversation_bucket(conversation_id: str) -> int:
    """Bucket of a ShareGPT conversation; its parts share one."""
    return bucket(base_id(conversation_id))


def split_of(number: int) -> str:
    """Buckets 0-19 are reserved (neither trained on nor reported), 20-29 test, 30-39 validation.

    Raises ``ValueError`` outside 0-99.
    """
    if not 0 <= number < 100:
        raise ValueError(f"bucket must lie between 0 and 99, got {number}")
    if number < 20:
        return RESERVED
    if number < 30:
        return TEST
    return VALIDATION if number < 40 else TRAIN
