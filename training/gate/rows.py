"""Which rows both rankers may be asked about: those that neither was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from training.sources import Example
from training.split import plain

#: Artifact of a run: hashes of what its ranker was trained on, unsigned 64 bits, ascending.
SEEN_FILE = "rows/trained-on.u64"
_KIND = np.dtype("<u8")


def seen(examples: Iterable[Example]) -> bytes:
    """Hashes of the prompts and conversations of training rows; they hold no text."""
    hashes = {h for e in examples if e.split == "train" for h in _hashes(e)}
    return np.array(sorted(hashes), dtype=_KIND).tobytes()


def unseen(examples: Sequence[Example], trained_on: bytes) -> list[Example]:
    """Those that :func:`seen` of another ranker does not hold, in order.

    Raises ``ValueError`` when ``trained_on`` is not what :func:`seen` gives.
    """
    if len(trained_on) % _KIND.itemsize:
        raise ValueError(f"{SEEN_FILE}: {len(trained_on)} bytes are no list of hashes")
    there: NDArray[np.uint64] = np.frombuffer(trained_on, dtype=_KIND)
    table = np.array([_hashes(e) for e in examples], dtype=_KIND).reshape(-1, 2)
    hits = np.isin(table, there)
    known = hits[:, 0] | hits[:, 1]
    return [e for e, before in zip(examples, known, strict=True) if not before]


def _hashes(e: Example) -> tuple[int, int]:
    """Of the prompt, and of the conversation; a prompt of none gives the first twice."""
    prompt = _hash(f"prompt\0{plain(e.prompt)}")
    return prompt, _hash(f"conversation\0{e.conversation}") if e.conversation else prompt


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
