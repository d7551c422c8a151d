"""How many calls are forecast at once, by what a prompt costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from ranker.types import Forecast
from serving.batcher import Batcher, BatcherConfig


@dataclass
class Slow:
    """Takes ``seconds`` a prompt on a clock of its own."""

    seconds: float
    name: str = "slow"
    version: str = "1"
    served_model: str = "toy"
    now: float = 0.0
    batches: list[int] = field(default_factory=list)

    def forecast(self, prompts: Sequence[str]) -> list[Forecast]:
        self.now += self.seconds * len(prompts)
        self.batches.append(len(prompts))
        return [Forecast(len(p), (1.0,), self.name, self.version, (0.5,)) for p in prompts]


@pytest.mark.parametrize(
    ("seconds", "batches"), [(0.0001, [1, 8]), (0.005, [1, 4, 4]), (0.015, [1, *[1] * 8])]
)
async def test_calls_share_a_batch_as_far_as_it_stays_short(
    seconds: float, batches: list[int]
) -> None:
    ranker = Slow(seconds)
    batcher = Batcher(BatcherConfig(batch_s=0.021), clock=lambda: ranker.now)
    await batcher.forecast(ranker, ["the first tells the pace"])
    together = [batcher.forecast(ranker, ["a" * i]) for i in range(1, 9)]
    answers = await asyncio.gather(*together)
    await batcher.close()
    assert [[f.score for f in answer] for answer in answers] == [[i] for i in range(1, 9)]
    assert ranker.batches == batches


async def test_one_call_is_never_split() -> None:
    ranker = Slow(1.0)
    batcher = Batcher(BatcherConfig(), clock=lambda: ranker.now)
    for _ in range(2):
        assert len(await batcher.forecast(ranker, ["a", "b", "c"])) == 3
    await batcher.close()
    assert ranker.batches == [3, 3]
