"""Traffic for a rank service: each request is ranked and then reported, under one id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from ranker.types import Outcome
from serving.messages import forecast_from, outcome_message
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc
from training.sources import Example

_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Feed:
    """Requests one a second, the first at Unix second ``at``; ``number`` were sent."""

    stub: rank_pb2_grpc.RankServiceStub
    served_model: str
    at: float
    number: int = 0

    def send(self, examples: Sequence[Example]) -> list[Outcome]:
        """Rank ``examples`` and report their lengths. Raises ``grpc.RpcError``."""
        ids = [f"request-{self.number + i}" for i in range(len(examples))]
        items = [
            rank_pb2.RankItem(id=name, prompt=e.prompt)
            for name, e in zip(ids, examples, strict=True)
        ]
        request = rank_pb2.RankRequest(served_model=self.served_model, items=items)
        answer = self.stub.Rank(request, timeout=_TIMEOUT_S)
        outcomes = []
        for name, example, forecast in zip(ids, examples, answer.forecasts, strict=True):
            outcomes.append(
                Outcome(
                    request_id=name,
                    served_model=self.served_model,
                    output_tokens=example.output_tokens,
                    finish_reason=example.finish_reason,
                    arrival=self.at + self.number,
                    # When the answer ended plays no part: cohorts go by arrival.
                    finished=self.at + self.number,
                    prompt_tokens=example.prompt_tokens,
                    forecast=forecast_from(forecast, answer.ranker),
                )
            )
            self.number += 1
        reported = rank_pb2.ReportOutcomesRequest(outcomes=[outcome_message(o) for o in outcomes])
        self.stub.ReportOutcomes(reported, timeout=_TIMEOUT_S)
        return outcomes

    def version(self) -> str:
        """The ranker version that answers now; its request is never reported."""
        item = rank_pb2.RankItem(id="who-answers", prompt="?")
        request = rank_pb2.RankRequest(served_model=self.served_model, items=[item])
        return str(self.stub.Rank(request, timeout=_TIMEOUT_S).ranker.version)


@contextmanager
def feeding(target: str, served_model: str, at: float) -> Iterator[Feed]:
    with grpc.insecure_channel(target) as channel:
        yield Feed(rank_pb2_grpc.RankServiceStub(channel), served_model, at)
