"""Step 5's traffic: real prompts are ranked over gRPC, their real lengths reported back."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from ranker.types import Outcome
from serving.messages import outcome_message
from serving.rank_query import query
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

if TYPE_CHECKING:
    from training.sources import Example

_CHUNK = 50


@dataclass(frozen=True, slots=True)
class Feed:
    """Outcomes at one request a ``every_s``, from Unix second ``start`` on."""

    target: str
    served_model: str
    start: float
    every_s: float = 1.0

    def send(
        self,
        examples: Sequence[Example],
        *,
        name: str,
        first: int,
        seed: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Rank and report ``examples`` in random order; how many of them were new to the service.

        ``first`` is the number of the first request in the timeline, ``name`` makes ids unique.
        A chunk is ranked before any of its lengths is reported, as in life. Raises
        ``QueryFailed`` and ``grpc.RpcError``.
        """
        order = list(examples)
        random.Random(seed).shuffle(order)
        stored = 0
        with grpc.insecure_channel(self.target) as channel:
            stub = rank_pb2_grpc.RankServiceStub(channel)
            for start in range(0, len(order), _CHUNK):
                part = order[start : start + _CHUNK]
                messages = self._outcomes(part, name, first + start)
                request = rank_pb2.ReportOutcomesRequest(outcomes=messages)
                stored += stub.ReportOutcomes(request, timeout=60.0).stored
                progress(start + len(part))
        return stored

    def _outcomes(self, part: Sequence[Example], name: str, first: int) -> list[rank_pb2.Outcome]:
        answer = query(self.target, [e.prompt for e in part], self.served_model, timeout_s=60.0)
        return [
            outcome_message(
                Outcome(
                    request_id=f"{name}-{first + i}",
                    served_model=self.served_model,
                    output_tokens=example.output_tokens,
                    finish_reason=example.finish_reason,
                    arrival=self.start + (first + i) * self.every_s,
                    # When the answer ended plays no part: cohorts go by arrival.
                    finished=self.start + (first + i) * self.every_s,
                    prompt_tokens=example.prompt_tokens,
                    forecast=forecast,
                )
            )
            for i, (example, forecast) in enumerate(zip(part, answer.forecasts, strict=True))
        ]
