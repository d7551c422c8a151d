"""What clients do, drawn at random: ask, leave early or late, give up at a deadline, ask badly."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: The engine's lanes. The second one orders by priority.
LANES = ("chat", "batch")
#: Tokens, prompt and answer together, that the soaked engine takes.
CONTEXT = 320
#: What some ask for besides, over HTTP: more answers, an early end, more to tell of each token.
_EXTRAS: tuple[dict[str, Any], ...] = ({}, {}, {}, {"n": 2}, {"stop": ["e"]}, {"logprobs": 2})


class Kind(StrEnum):
    """``leave``: hang up after some chunks, or before the first. ``deadline``: a gRPC deadline that
    may be too short. ``bad``: something that must be refused by name."""

    ANSWER = "answer"
    LEAVE = "leave"
    DEADLINE = "deadline"
    BAD = "bad"


_SHARES = {Kind.ANSWER: 0.62, Kind.LEAVE: 0.18, Kind.DEADLINE: 0.06, Kind.BAD: 0.14}
#: Fields that the engine must refuse, each on its own.
_BAD: tuple[dict[str, Any], ...] = (
    {"max_tokens": -1},
    {"max_tokens": 10_000},
    {"temperature": -1.0},
    {"top_p": 0.0},
    {"lane": "nobody"},
    {"model": "nobody"},
    {"prompt": ""},
    {"prompt": "x" * (CONTEXT + 1)},
    {"priority": 3, "lane": LANES[0]},
)


@dataclass(frozen=True, slots=True)
class Act:
    """``fields`` as the OpenAI API has them. ``chunks``: after so many a leaver hangs up; 0: as
    soon as it asked. ``deadline_s``: of a call that has one. ``exact``: the answer must have
    ``max_tokens`` tokens."""

    kind: Kind
    protocol: str
    stream: bool
    fields: dict[str, Any]
    chunks: int = 0
    deadline_s: float | None = None

    @property
    def exact(self) -> bool:
        ends_early = "stop" in self.fields or not self.fields["ignore_eos"]
        return self.kind is Kind.ANSWER and not ends_early

    @property
    def answers(self) -> int:
        return int(self.fields.get("n", 1))


def draw(rng: random.Random) -> Act:
    """One of them. A deadline is a matter of gRPC alone."""
    kind = rng.choices(list(_SHARES), list(_SHARES.values()))[0]
    protocol = "grpc" if kind is Kind.DEADLINE else rng.choice(("http", "grpc"))
    fields = _fields(rng)
    if protocol == "http":
        fields |= rng.choice(_EXTRAS)
    if kind is Kind.BAD:
        fields |= rng.choice(_BAD)
    return Act(
        kind=kind,
        protocol=protocol,
        stream=protocol == "grpc" or rng.random() < 0.7,
        fields=fields,
        chunks=rng.choice((0, 0, 1, 2, 5)),
        deadline_s=rng.uniform(0.001, 0.3) if kind is Kind.DEADLINE else None,
    )


def _fields(rng: random.Random) -> dict[str, Any]:
    # Half of the prompts begin alike, for the prefix cache; a few are long, for chunked prefill.
    size = rng.randint(1, 40) if rng.random() < 0.9 else rng.randint(100, 200)
    head = "You are a patient assistant. " if rng.random() < 0.5 else ""
    lane = rng.choice(("", *LANES))
    fields: dict[str, Any] = {
        "prompt": head + "".join(rng.choices("abcdefgh ", k=size)),
        "max_tokens": rng.randint(1, 32) if rng.random() < 0.7 else rng.randint(33, 70),
        "ignore_eos": rng.random() < 0.7,
        "temperature": rng.choice((0.0, 0.0, 1.0)),
        "seed": rng.getrandbits(32),
        "user": rng.choice(("", "acme", "globex", "initech")),
        "lane": lane,
    }
    if lane == LANES[1]:
        fields["priority"] = rng.randint(-2, 2)
    return fields
