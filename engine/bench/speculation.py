"""Does guessing ahead pay? A real engine with and without, on the same prompts, as load rises."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.backend import TorchBackend
from engine.comparison import Spread
from engine.core.speculation import SpeculationConfig
from engine.events import Ended, Tokens
from engine.sampling import SamplingParams
from ranker.types import FinishReason

#: The engine that guesses nothing: what the others are held against.
OFF = "off"


@dataclass(frozen=True, slots=True)
class SpecConfig:
    """levels: requests in flight, each tried in turn. tokens: of an answer at most. rounds: answers
    of each request in flight, one after the other, at least eight in all. repeats: alternating
    repetitions.

    Raises ``ValueError`` naming the field.
    """

    levels: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    tokens: int = 96
    rounds: int = 2
    repeats: int = 3
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if not self.levels or min(self.levels) < 1:
            raise ValueError(f"levels must be one or more numbers >= 1, got {self.levels}")
        for name in ("tokens", "rounds", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")

    def requests(self, level: int) -> int:
        return max(8, self.rounds * level)


@dataclass(frozen=True, slots=True)
class Row:
    """One engine at one level on one kind of prompts, over repetitions.

    relative: output tokens per second against the engine without drafts in the same repetition.
    acceptance: share of the guesses that stood. drafts: guesses per step. same: whether every
    token was that of the engine without drafts.
    """

    prompts: str
    level: int
    engine: str
    tokens_per_second: Spread
    relative: Spread
    acceptance: float
    drafts: float
    tokens_per_step: float
    same: bool


def fixed(config: SpeculationConfig, drafts: int) -> SpeculationConfig:
    """As many drafts in every step, whatever they cost and whether they stand."""
    return replace(
        config, max_drafts=drafts, memory=10**9, own_memory=10**9, steps=((1, 1.0), (10**9, 1.0)),
        draft_seconds=0.0,
    )  # fmt: skip


def study(
    config: SpecConfig,
    engines: Mapping[str, TorchBackend],
    prompts: Mapping[str, Sequence[Sequence[int]]],
    progress: Callable[[int], None] = lambda done: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Row]:
    """One row per kind of prompts, level and engine; ``engines`` holds one called :data:`OFF`.

    Each engine first answers all prompts once: their keys and values are in its prefix cache then,
    and what is timed is decoding. ``progress`` counts runs, :func:`runs` in all. Raises
    ``RuntimeError`` when an answer failed.
    """
    rows, done = [], 0
    for kind, texts in prompts.items():
        for backend in engines.values():
            most = config.requests(max(config.levels))
            _run(backend, texts, max(config.levels), min(most, len(texts)), 1, config, clock)
            done += 1
            progress(done)
        for level in config.levels:
            runs: dict[str, list[_Run]] = {name: [] for name in engines}
            for repeat in range(config.repeats):
                # Whoever begins has no advantage over the repetitions.
                order = list(engines)
                first = repeat % len(order)
                for name in order[first:] + order[:first]:
                    count = config.requests(level)
                    runs[name].append(
                        _run(engines[name], texts, level, count, config.tokens, config, clock)
                    )
                    done += 1
                    progress(done)
            rows += [_row(kind, level, name, each, runs[OFF]) for name, each in runs.items()]
    return rows


def runs(config: SpecConfig, engines: int, kinds: int) -> int:
    """How many :func:`study` takes."""
    return kinds * engines * (1 + len(config.levels) * config.repeats)


@dataclass(frozen=True, slots=True)
class _Run:
    seconds: float
    tokens: int
    steps: int
    drafted: int
    accepted: int
    answers: tuple[tuple[int, ...], ...]

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def _run(
    backend: TorchBackend,
    texts: Sequence[Sequence[int]],
    level: int,
    count: int,
    tokens: int,
    config: SpecConfig,
    clock: Callable[[], float],
) -> _Run:
    before = backend.snapshot()
    begun = clock()
    answers = asyncio.run(_answers(backend, texts, level, count, tokens, config))
    seconds = clock() - begun
    after = backend.snapshot()
    return _Run(
        seconds=seconds,
        tokens=sum(map(len, answers)),
        steps=after.steps - before.steps,
        drafted=after.scheduler.drafted_tokens - before.scheduler.drafted_tokens,
        accepted=after.scheduler.accepted_tokens - before.scheduler.accepted_tokens,
        answers=answers,
    )


async def _answers(
    backend: TorchBackend,
    texts: Sequence[Sequence[int]],
    level: int,
    count: int,
    tokens: int,
    config: SpecConfig,
) -> tuple[tuple[int, ...], ...]:
    """The first ``count`` of ``texts``, and again from the first on; ``level`` in flight."""
    slots = asyncio.Semaphore(level)

    async def one(place: int) -> tuple[int, ...]:
        sampling = SamplingParams(max_tokens=tokens, temperature=config.temperature, seed=place)
        said: list[int] = []
        async with slots:
            name, ids = uuid.uuid4().hex, texts[place % len(texts)]
            stream = await backend.submit(name, ids, sampling, None, "", time.monotonic())
            async for event in stream:
                if isinstance(event, Tokens):
                    said += event.token_ids
                elif isinstance(event, Ended) and event.reason is FinishReason.ERROR:
                    raise RuntimeError("an answer failed; see the log")
        return tuple(said)

    return tuple(await asyncio.gather(*(one(place) for place in range(count))))


def _row(kind: str, level: int, name: str, mine: Sequence[_Run], plain: Sequence[_Run]) -> Row:
    drafted, steps = sum(run.drafted for run in mine), sum(run.steps for run in mine)
    return Row(
        prompts=kind,
        level=level,
        engine=name,
        tokens_per_second=Spread.of([run.rate for run in mine]),
        relative=Spread.of([a.rate / b.rate for a, b in zip(mine, plain, strict=True)]),
        acceptance=sum(run.accepted for run in mine) / drafted if drafted else 0.0,
        drafts=drafted / steps,
        tokens_per_step=sum(run.tokens for run in mine) / steps,
        same=all(a.answers == b.answers for a, b in zip(mine, plain, strict=True)),
    )
