"""Champion against challenger on one window of pairs: tau-b of both, and who is better. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from drift.entry import Entry
from drift.figures import known
from drift.key import Key
from ranker.metrics import Difference, paired

#: A verdict other than ``unclear`` is wrong once in a hundred looks at equals.
_SURE_P = 0.01
#: Slices of lane and tenant that are told of at most, the largest ones.
_MOST_SLICES = 8
#: Who speaks.
ACTOR = "shadow scoring"


@dataclass(frozen=True, slots=True)
class Rivals:
    """The version of ``ranker`` that serves, and the one that may take its place."""

    served_model: str
    ranker: str
    champion: str
    challenger: str


@dataclass(frozen=True, slots=True)
class Pair:
    """What both said of one request (scores, higher = longer), and what came of it."""

    champion: float
    challenger: float
    tokens: int
    censored: bool
    lane: str = ""
    tenant: str = ""


class Settings(Protocol):
    """What of :class:`drift.shadow.ShadowConfig` a comparison goes by."""

    @property
    def least(self) -> int: ...
    @property
    def resamples(self) -> int: ...
    @property
    def confidence(self) -> float: ...
    @property
    def seed(self) -> int: ...


class Verdict(StrEnum):
    """Of the challenger."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Gap:
    """tau-b of both over ``pairs`` requests, challenger minus champion, and the 95 % interval of
    that (paired bootstrap). ``None``: not defined."""

    label: str
    pairs: int = 0
    champion_tau: float | None = None
    challenger_tau: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``overall`` of the window, ``slices`` of its larger parts, the largest first."""

    rivals: Rivals
    verdict: Verdict
    overall: Gap
    slices: tuple[Gap, ...] = ()

    @property
    def words(self) -> str:
        """One line for people."""
        gap = self.overall
        if gap.champion_tau is None or gap.challenger_tau is None or gap.difference is None:
            return f"no order of length in {gap.pairs} shadowed outcomes"
        bounds = "" if gap.low is None else f" ({gap.low:+.3f} to {gap.high:+.3f})"
        return (
            f"tau-b {gap.challenger_tau:.3f} against {gap.champion_tau:.3f} on {gap.pairs} "
            f"shadowed outcomes: {gap.difference:+.3f}{bounds}"
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, flat but for the slices."""
        return {
            **asdict(self.rivals),
            "verdict": str(self.verdict),
            **asdict(self.overall),
            "slices": [asdict(gap) for gap in self.slices],
        }

    def entry(self, at: float, before: Verdict) -> Entry:
        """For the history: the verdict changed at Unix second ``at``."""
        rivals = self.rivals
        numbers = asdict(self.overall).items()
        return Entry(
            at=at,
            kind="shadow",
            actor=ACTOR,
            served_model=rivals.served_model,
            before=str(before),
            after=str(self.verdict),
            ranker=rivals.ranker,
            version=rivals.challenger,
            reasons=(self.words,),
            message=f"version {rivals.challenger} beside version {rivals.champion}",
            advice=_ADVICE[self.verdict].format(rivals=rivals),
            details={name: value for name, value in numbers if isinstance(value, int | float)},
        )


_ADVICE = {
    Verdict.BETTER: "shortfirst promote {rivals.ranker} {rivals.challenger} --outcomes asks the "
    "gate",
    Verdict.WORSE: "leave version {rivals.champion} where it is",
    Verdict.UNCLEAR: "",
}


def compared(rivals: Rivals, pairs: Sequence[Pair], config: Settings) -> Comparison | None:
    """Compare on ``pairs``, in any order; ``None`` with fewer than ``config.least``.

    The interval and the p-value are those of :func:`ranker.metrics.paired`: both rankers judged on
    the same resampled rows, lower bounds as lower bounds. Whoever looks again and again is wrong
    more often than in one look; the gate looks once, at rows of its own.
    """
    if len(pairs) < config.least:
        return None
    gap = _difference(pairs, config)
    verdict = Verdict.UNCLEAR
    if gap.p <= _SURE_P:
        verdict = Verdict.BETTER if gap.value > 0.0 else Verdict.WORSE
    sizes = Counter((pair.lane, pair.tenant) for pair in pairs)
    slices = []
    if len(sizes) > 1:
        for (lane, tenant), size in sizes.most_common(_MOST_SLICES):
            if size < config.least:
                break
            part = [pair for pair in pairs if (pair.lane, pair.tenant) == (lane, tenant)]
            label = Key(rivals.served_model, rivals.ranker, rivals.champion, lane, tenant).label
            slices.append(_gap(label, len(part), _difference(part, config)))
    return Comparison(rivals, verdict, _gap("all", len(pairs), gap), tuple(slices))


def _difference(pairs: Sequence[Pair], config: Settings) -> Difference:
    return paired(
        np.array([pair.challenger for pair in pairs]),
        np.array([pair.champion for pair in pairs]),
        np.array([pair.tokens for pair in pairs]),
        np.array([pair.censored for pair in pairs]),
        seed=config.seed,
        resamples=config.resamples,
        confidence=config.confidence,
    )


def _gap(label: str, size: int, found: Difference) -> Gap:
    numbers = (found.b, found.a, found.value, found.low, found.high)
    return Gap(label, size, *map(known, numbers))
