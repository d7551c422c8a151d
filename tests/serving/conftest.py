"""Fixtures of the serving tests; the parts they are made of are in ``parts``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from ranker.types import FinishReason, Forecast, Outcome
from tests.serving.parts import RankServer, serve_rank


@pytest.fixture
async def rank() -> AsyncIterator[RankServer]:
    async with serve_rank() as running:
        yield running


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    def make(request_id: str = "r1", **changes: object) -> Outcome:
        values: dict[str, object] = {
            "request_id": request_id,
            "served_model": "sharegpt",
            "output_tokens": 12,
            "finish_reason": FinishReason.STOP,
            "arrival": 1_700_000_000.25,
            "finished": 1_700_000_001.5,
            "prompt_tokens": 7,
            "forecast": Forecast(1.5, (1.0, 2.0), "words", "1", (0.5, 0.9)),
            "tenant": "acme",
        }
        return Outcome(**{**values, **changes})  # type: ignore[arg-type]

    return make
