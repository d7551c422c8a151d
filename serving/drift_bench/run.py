"""Which cells each question has, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from serving.drift_bench.bench import Bench
from serving.drift_bench.questions.abrupt import abrupt
from serving.drift_bench.questions.censoring import censoring
from serving.drift_bench.questions.gradual import gradual
from serving.drift_bench.questions.scale import scale
from serving.drift_bench.questions.stationary import stationary
from serving.drift_bench.questions.targets import left_of, strength
from serving.drift_bench.questions.tenants import tenants
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import CHAT, Shift, Traffic

QUESTIONS = ("scale", "tenants", "censoring", "abrupt", "gradual", "stationary", "queued")
#: Shifts that are replayed through the engine too, which takes most of the time: one of each
#: strength, from the shared data or the bundled.
QUEUED = ("livecodebench", "gsm8k", "not-english")

#: One cell of a question: what it is about, and how its rows are made.
Cell = tuple[str, str, Callable[[], Sequence[Any]]]


def cells(bench: Bench, traffic: Traffic, only: Sequence[str] = ()) -> Iterator[Cell]:
    """Cells of the questions ``only``, all without it, quick ones first.

    Raises ``ValueError`` naming a question that is not there.
    """
    if unknown := [name for name in only if name not in QUESTIONS]:
        raise ValueError(f"only: no question {unknown[0]!r}; there are {', '.join(QUESTIONS)}")
    wanted = only or QUESTIONS
    for question in QUESTIONS:
        if question in wanted:
            for about, make in _cells(bench, traffic, question):
                yield question, about, make


def _cells(
    bench: Bench, traffic: Traffic, question: str
) -> Iterator[tuple[str, Callable[[], Sequence[Any]]]]:
    def strong(shift: Shift, *strengths: str) -> bool:
        return strength(left_of(bench, shift, traffic.usual[shift.usual])) in strengths

    chat = [shift for shift in traffic.shifts if shift.usual == CHAT]
    if question == "scale":
        for factor in (2.0, 0.5):
            yield f"x {factor:g}", partial(scale, bench, traffic, factor)
    elif question == "tenants":
        for shift in chat:
            if strong(shift, "strong"):
                yield shift.name, partial(tenants, bench, traffic, shift)
    elif question == "censoring":
        for cut in (0.1, 0.2, 0.3):
            yield f"{cut:.0%} cut", partial(censoring, bench, traffic, cut)
    elif question == "abrupt":
        for shift in traffic.shifts:
            yield shift.name, partial(abrupt, bench, traffic, shift, Order.INDEPENDENT)
    elif question == "gradual":
        for shift in chat:
            if strong(shift, "strong", "weak"):
                yield shift.name, partial(gradual, bench, traffic, shift)
    elif question == "stationary":
        for order in Order:
            yield str(order), partial(stationary, bench, traffic, order)
    else:
        names = [name for name in QUEUED if any(shift.name == name for shift in chat)][:2]
        for shift in (shift for shift in chat if shift.name in names):
            for order in (Order.FCFS, Order.SJF):
                yield f"{shift.name}, {order}", partial(abrupt, bench, traffic, shift, order)
