"""What an embedding leaves behind, from the rank service to the store and the board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from drift.config import MonitorConfig
from drift.outcomes import OutcomeStore
from drift.sink import MonitoredStore
from ranker.calibration import Calibration
from ranker.length_ranker import LengthRanker
from ranker.prediction import Prediction
from ranker.types import FinishReason, Outcome
from serving.messages import forecast_from, outcome_message
from shortfirst.rank.v1 import rank_pb2
from tests.serving.parts import RankServer, serve_rank

BEGAN = 1_700_000_000.0
CONFIG = MonitorConfig.from_mapping(
    {"window": 200, "reference_first": 200, "reference_most": 200, "fcfs_least": 200,
     "chart": {"streams": 24, "length": 4096}}
)  # fmt: skip


class Letters:
    """Embeds a prompt by its letters, and scores it by how many there are."""

    kind: ClassVar[str] = "letters"

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        rows = [[float(prompt.count(chr(c))) for c in range(97, 123)] for prompt in prompts]
        embeddings = np.array(rows)
        return Prediction(embeddings.sum(axis=1), embeddings=embeddings)


def prompts(letters: str, count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), rng.integers(5, 60))) for _ in range(count)]


async def ask_and_tell(rank: RankServer, asked: Sequence[str], first: int) -> list[Outcome]:
    """Have ``asked`` ranked and their outcomes reported, as a scheduler does."""
    items = [rank_pb2.RankItem(id=str(first + i), prompt=p) for i, p in enumerate(asked)]
    answer = await rank.stub.Rank(rank_pb2.RankRequest(items=items))
    told = [
        Outcome(
            request_id=message.id,
            served_model="m",
            output_tokens=len(prompt),
            finish_reason=FinishReason.STOP,
            arrival=BEGAN + int(message.id),
            finished=BEGAN + int(message.id) + 0.5,
            prompt_tokens=len(prompt),
            forecast=forecast_from(message, answer.ranker),
        )
        for message, prompt in zip(answer.forecasts, asked, strict=True)
    ]
    report = rank_pb2.ReportOutcomesRequest(outcomes=[outcome_message(o) for o in told])
    assert (await rank.stub.ReportOutcomes(report)).stored == len(asked)
    return told


async def test_a_change_of_meaning_is_seen_from_answers_and_outcomes(tmp_path: Path) -> None:
    knots = np.array([0.0, 100.0])
    calibration = Calibration(knots, knots[:, None] * 1.0, (0.5,), 1.0)
    ranker = LengthRanker(Letters(), calibration, "m", "letters", "1")
    sink = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", lambda: BEGAN, CONFIG)
    async with serve_rank(ranker, sink) as rank:  # type: ignore[arg-type]
        usual = await ask_and_tell(rank, prompts("abcdefgh", 200, 1), 0)
        before = {shift.name: shift for shift in sink.board().models[0].shifts}
        other = await ask_and_tell(rank, prompts("stuvwxyz", 200, 2), 200)
        after = {shift.name: shift for shift in sink.board().models[0].shifts}
    state = sink.board().models[0].state
    sink.close()
    asked = [*prompts("abcdefgh", 200, 1), *prompts("stuvwxyz", 200, 2)]
    assert [o.forecast for o in usual + other] == ranker.forecast(asked)
    store = OutcomeStore(tmp_path / "o.db")
    assert list(store.by_arrival()) == usual + other
    store.close()
    assert before["embedding"].distance == 0.0
    assert after["embedding"].distance > 2 * after["embedding"].chance
    for name in ("output_tokens", "prompt_tokens", "score", "novelty"):
        assert after[name].distance <= after[name].chance
    assert state == "ok"
