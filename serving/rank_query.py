"""One blocking question to a rank service, for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from ranker.types import Forecast
from serving.messages import forecast_from
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

_AT_ONCE = 256


class QueryFailed(Exception):
    """The service gave no answer. ``unavailable``: it could not be reached or had no time."""

    def __init__(self, message: str, unavailable: bool) -> None:
        super().__init__(message)
        self.unavailable = unavailable


@dataclass(frozen=True, slots=True)
class RankAnswer:
    """``fallback``: no ranker knows the served model, the pooled one answered."""

    served_model: str
    ranker: str
    version: str
    forecasts: tuple[Forecast, ...]
    fallback: bool = False


def query(target: str, prompts: Sequence[str], served_model: str, timeout_s: float) -> RankAnswer:
    """Forecasts of ``prompts``, in order. Raises ``QueryFailed``."""
    forecasts: list[Forecast] = []
    with grpc.insecure_channel(target) as channel:
        stub = rank_pb2_grpc.RankServiceStub(channel)
        for start in range(0, len(prompts), _AT_ONCE):
            items = [
                rank_pb2.RankItem(id=str(start + i), prompt=prompt)
                for i, prompt in enumerate(prompts[start : start + _AT_ONCE])
            ]
            request = rank_pb2.RankRequest(served_model=served_model, items=items)
            try:
                answer = stub.Rank(request, timeout=timeout_s)
            except grpc.RpcError as error:
                raise _failed(error, target, timeout_s) from None
            forecasts += [forecast_from(f, answer.ranker) for f in answer.forecasts]
    return RankAnswer(
        answer.served_model,
        answer.ranker.name,
        answer.ranker.version,
        tuple(forecasts),
        answer.fallback,
    )


def _failed(error: grpc.RpcError, target: str, timeout_s: float) -> QueryFailed:
    code = error.code()
    if code is grpc.StatusCode.UNAVAILABLE:
        return QueryFailed(
            f"no rank service answers at {target}; start one with shortfirst serve", True
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return QueryFailed(f"{target} gave no answer within {timeout_s:g} s", True)
    return QueryFailed(f"{code.name}: {error.details()}", False)
