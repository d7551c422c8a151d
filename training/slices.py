"""Parts of the traffic, to see where an order is good and where it is not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker.metrics import coverage, order, short_long
from ranker.types import NOVEL, Forecast
from training.draws import prompt_numbers
from training.sources import Example, Lengths

Members = NDArray[np.bool_]

_LEAST_ROWS = 30

_CODE = re.compile(
    r"```|[{};]\s*$|\bdef \w+\(|\bimport \w+|=>|</\w+>|#include|\bSELECT\b", re.MULTILINE
)
_LOOK_AT = 2000  # characters
_PROMPT_EDGES = (0, 50, 200, 1000)  # characters
_ANSWER_EDGES = (0, 64, 256, 768)  # tokens
_NOVELTY_EDGES = (0.0, 0.5, NOVEL)


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One ranker on one part of the rows; the numbers are those of :class:`training.evaluate.Row`.
    NaN where undefined."""

    name: str
    rows: int
    tau: float
    low: float
    high: float
    accuracy: float
    short_long: float
    p50: float
    p90: float


def has_code(prompt: str) -> bool:
    """Whether there is program code in the first 2,000 characters."""
    return bool(_CODE.search(prompt[:_LOOK_AT]))


def not_english(prompt: str) -> bool:
    """Whether 5% or more of the first 2,000 characters are outside ASCII. Says nothing of languages
    that need no others, but of most it does."""
    text = prompt[:_LOOK_AT]
    outside = len(text) - len(text.encode("ascii", "ignore"))
    return outside >= 0.05 * max(1, len(text))


def slices(examples: Sequence[Example]) -> dict[str, Members]:
    """Which rows belong to which part, by name: by language, code and prompt length in characters,
    all known when a prompt arrives. Each has at least one row; they overlap."""
    foreign = np.array([not_english(e.prompt) for e in examples], np.bool_)
    code = np.array([has_code(e.prompt) for e in examples], np.bool_)
    characters = np.array([len(e.prompt) for e in examples], np.float64)
    found = {"english": ~foreign, "not-english": foreign, "code": code, "no-code": ~code}
    return _filled(found | _bands("prompt", characters, _PROMPT_EDGES))


def by_caller(examples: Sequence[Example], most: int) -> dict[str, Members]:
    """Rows of live traffic by who asked and where they queued: the ``most`` tenants, and as many
    lanes, with the most rows. Where there is but one, it is the whole and no part; other rows than
    those of live traffic are in none."""
    found: dict[str, Members] = {}
    for kind in ("tenant", "lane"):
        names = np.array([getattr(e.origin, kind, None) for e in examples], dtype=object)
        counts = Counter(name for name in names if name is not None)
        if len(counts) > 1:
            for name, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:most]:
                # As Python writes it: names are whatever callers sent.
                found[f"{kind} {name!r}"] = names == name
    return found


def by_answer(examples: Sequence[Example]) -> dict[str, Members]:
    """Bands of answer length in tokens, known afterwards.

    A censored answer is in the last band once its bound has come so far, else in none. Within a
    band lengths differ less, so that its tau is lower than that of the whole.
    """
    tokens = np.array([e.output_tokens for e in examples], np.float64)
    whole = np.array([not e.finish_reason.censored for e in examples], np.bool_)
    *below, last = _bands("answer", tokens, _ANSWER_EDGES).items()
    return _filled({name: members & whole for name, members in below} | dict([last]))


def by_novelty(novelty: ArrayLike) -> dict[str, Members]:
    """Bands of ``novelty`` [rows] in [0, 1]."""
    return _filled(_bands("novelty", np.asarray(novelty, np.float64), _NOVELTY_EDGES))


def by_slice(
    forecasts: Sequence[Forecast], examples: Sequence[Example], *, seed: int = 0
) -> list[SliceRow]:
    """How one ranker's ``forecasts`` of ``examples`` do in each part with 30 rows or more."""
    parts = slices(examples) | by_answer(examples)
    if any(f.novelty > 0.0 for f in forecasts):
        parts |= by_novelty([f.novelty for f in forecasts])
    scores = np.array([f.score for f in forecasts])
    two = np.array([[f.quantile(0.5), f.quantile(0.9)] for f in forecasts])
    lengths, prompts = Lengths.of(examples), prompt_numbers(examples)
    found = []
    for name, members in parts.items():
        if np.count_nonzero(members) < _LEAST_ROWS:
            continue
        y, c = lengths.tokens[members], lengths.censored[members]
        part = order(scores[members], y, c, clusters=prompts[members], seed=seed)
        shares, _ = coverage(two[members], y, c, (0.5, 0.9))
        found.append(
            SliceRow(
                name=name,
                rows=len(y),
                tau=part.tau,
                low=part.low,
                high=part.high,
                accuracy=part.accuracy,
                short_long=short_long(scores[members], y, c),
                p50=float(shares[0]),
                p90=float(shares[1]),
            )
        )
    return found


def _bands(name: str, values: NDArray[np.float64], edges: Sequence[float]) -> dict[str, Members]:
    """A band runs from its edge, which names it, to below the next."""
    band = np.searchsorted(edges, values, side="right") - 1
    return {f"{name}-{edge:g}": band == i for i, edge in enumerate(edges)}


def _filled(parts: dict[str, Members]) -> dict[str, Members]:
    return {name: members for name, members in parts.items() if members.any()}
