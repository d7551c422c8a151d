"""What a ranker's pace asks of engines."""

from __future__ import annotations

from itertools import count

from serving.cli.pace import Pace


class Asked:
    """Keeps what it was asked."""

    def __init__(self) -> None:
        self.prompts: list[list[str]] = []

    def forecast(self, prompts):
        self.prompts.append(list(prompts))
        return []


def test_prompts_are_asked_one_by_one_after_one_to_warm_up():
    ranker, ticks = Asked(), count()
    pace = Pace.of(ranker, [f"p{i}" for i in range(50)], clock=lambda: next(ticks) * 0.002)
    assert ranker.prompts == [["p0"], *([f"p{i}"] for i in range(20))]
    assert (round(pace.typical, 6), round(pace.longest, 6)) == (2.0, 2.0)


def test_a_quick_ranker_asks_for_nothing_and_a_slow_one_for_time():
    assert str(Pace(0.43, 2.0)) == "One prompt takes 0.43 ms of this processor, 2 at most."
    slow = Pace(77.0, 241.0)
    assert str(slow).startswith("One prompt takes 77 ms of this processor, 241 at most, and")
    assert slow.deadline_ms == 730
    assert "start engines with --rank-deadline-ms 730" in str(slow)
    assert Pace(5.0, 16.0).deadline_ms == 50
    assert Pace(5.0, 17.0).deadline_ms == 60
