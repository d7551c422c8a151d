from __future__ import annotations

from collections.abc import Sequence

from ranker.types import FinishReason, Forecast
from training.fit import train
from training.forecasts import forecasts_of
from training.sources import Example


class Noting:
    """Scores by the lengths of prompt and name of the model, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def forecast(self, prompts: Sequence[str], served_model: str = "") -> list[Forecast]:
        self.asked.append((served_model, list(prompts)))
        return [
            Forecast(len(p) + 10.0 * len(served_model), (1.0,), "noting", "1", (0.5,))
            for p in prompts
        ]


def rows(*pairs: tuple[str, str]) -> list[Example]:
    return [
        Example(prompt, 5, FinishReason.STOP, model, str(i), "test")
        for i, (model, prompt) in enumerate(pairs)
    ]


def test_each_model_is_asked_once_for_each_prompt_and_the_order_is_that_of_the_rows():
    asked = rows(("bb", "x"), ("a", "xyz"), ("bb", "x"), ("bb", "xy"), ("a", "x"))
    ranker = Noting()
    assert [f.score for f in forecasts_of(ranker, asked)] == [21, 13, 21, 22, 11]
    assert ranker.asked == [("a", ["xyz", "x"]), ("bb", ["x", "xy"])]
    assert forecasts_of(ranker, []) == []


def test_rankers_and_the_baseline_are_asked_alike(examples, quick):
    held = [e for e in examples if e.split == "test"]
    made = train(examples, quick, served_model="toy", name="r")
    for ranker in (made.ranker, made.baseline):
        assert forecasts_of(ranker, held) == ranker.forecast([e.prompt for e in held])
