"""A cost model is found again from an engine that has one, and its test tells when it is not."""

from dataclasses import replace

import numpy as np
import pytest

from engine.bench.calibrate import CalibrateConfig, Observed, calibrate, fit_all
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Fcfs
from engine.costs import MeasuredStep
from engine.simulator import simulate
from engine.workload import Lengths

HIDDEN = CostModel(0.03, 0.002, 0.001, 4e-6)
SCHEDULER = SchedulerConfig(8, 256, 16, 512)


def lengths(seed=0, count=400):
    rng = np.random.default_rng(seed)
    return Lengths(rng.integers(1, 300, count), rng.geometric(0.02, count))


class Engine:
    """Simulates with a cost model of its own, times ``pace(segment)``, and remembers its steps."""

    def __init__(self, pace=lambda segment: 1.0, noise=0.05, pauses=0.0):
        self.rng = np.random.default_rng(7)
        self.segments = []
        self.pace, self.noise, self.pauses = pace, noise, pauses

    def __call__(self, requests):
        pace = self.pace(len(self.segments))
        self.segments.append(requests)
        parts = (HIDDEN.base, HIDDEN.decode, HIDDEN.prefill, HIDDEN.context)
        mean = pace * (1.0 + self.pauses)
        real = simulate(requests, SCHEDULER, Fcfs(), CostModel(*(mean * part for part in parts)))
        steps = []
        for _ in range(200):
            decodes = int(self.rng.integers(0, 9))
            prefill = int(self.rng.integers(1, 200)) * int(self.rng.integers(0, 2) or not decodes)
            context = decodes * int(self.rng.integers(10, 400))
            seconds = pace * HIDDEN.step(decodes, prefill, context)
            seconds *= 1.0 + self.noise * self.rng.standard_normal()
            steps.append(MeasuredStep(decodes, prefill, context, seconds))
        # All pauses of a hundred steps come in one of them.
        pause = 100.0 * self.pauses * float(np.mean([step.seconds for step in steps]))
        for place in range(50, len(steps), 100):
            steps[place] = replace(steps[place], seconds=steps[place].seconds + pause)
        return Observed(tuple(requests), tuple(real.timings), tuple(steps))


def run(engine, **changes):
    config = CalibrateConfig(**{"segments": 7, "requests": 60, **changes})
    first = CostModel(0.01, 0.001, 0.001)
    return calibrate(config, lengths(), SCHEDULER, Fcfs, first, engine)


def test_finds_the_cost_and_predicts_what_it_never_saw():
    found = run(Engine())
    assert found.fit.cost.base == pytest.approx(HIDDEN.base, rel=0.05)
    assert found.fit.cost.decode == pytest.approx(HIDDEN.decode, rel=0.05)
    assert found.fit.cost.prefill == pytest.approx(HIDDEN.prefill, rel=0.05)
    assert found.fit.cost.context == pytest.approx(HIDDEN.context, rel=0.25)
    assert abs(found.error("mean")) < 0.05
    assert abs(found.error("p99")) < 0.05
    assert found.paces == pytest.approx([1.0] * 7, abs=0.03)
    assert found.drift == pytest.approx(1.0, abs=0.02)
    assert found.real.requests == found.simulated.requests == 3 * 60
    rows = {row.name: row for row in found.compared()}
    assert rows["E2EL, mean"].error == found.error("mean")
    assert rows["E2EL, mean"].real == found.real.e2el.mean


def test_a_machine_that_slows_down_in_held_out_segments_alone_is_told():
    found = run(Engine(pace=lambda segment: 1.5 if segment % 2 else 1.0))
    assert found.drift == pytest.approx(1.5, abs=0.03)
    assert found.error("mean") < -0.2


def test_a_machine_that_slows_down_bit_by_bit_does_not_spoil_the_test():
    found = run(Engine(pace=lambda segment: 1.0 + 0.15 * segment))
    assert max(found.paces) > 1.5 * min(found.paces)
    assert found.drift == pytest.approx(1.0, abs=0.02)
    assert abs(found.error("mean")) < 0.06


def test_pauses_are_part_of_the_pace():
    """A fit that only leaves them out would promise a tenth too much, and the queue double that."""
    found = run(Engine(pauses=0.1))
    assert abs(found.error("mean")) < 0.06


def test_the_fitted_total_is_the_measured_one():
    steps = list(Engine(pauses=0.3)([*_requests()]).steps)
    cost = fit_all(steps).cost
    predicted = sum(cost.step(s.decodes, s.prefill_tokens, s.context_tokens) for s in steps)
    assert predicted == pytest.approx(sum(s.seconds for s in steps))


def _requests():
    engine = Engine()
    run(engine, segments=3, requests=5)
    return engine.segments[0]


def test_later_segments_keep_the_load_as_the_cost_becomes_known():
    """The first guess was three times too fast; every later segment arrives at the right pace."""
    engine = Engine()
    run(engine)
    spans = [segment[-1].arrival for segment in engine.segments]
    assert min(spans[1:]) > 1.5 * spans[0]
    for segment in engine.segments[1:]:
        work = sum(HIDDEN.work(r.prompt_tokens, r.true_tokens, 8) for r in segment)
        assert work / segment[-1].arrival == pytest.approx(0.7, rel=0.15)


def test_lengths_are_scaled_down_and_segments_differ():
    engine = Engine()
    run(engine, longest_prompt=50, longest_output=20)
    drawn = [(r.prompt_tokens, r.true_tokens) for segment in engine.segments for r in segment]
    prompts, outputs = np.array(drawn).T
    assert (prompts.max(), outputs.max()) == (50, 20)
    assert min(prompts.min(), outputs.min()) >= 1
    # Geometric lengths stay about geometric: a third are below a third of the mean.
    assert np.mean(outputs == 20) < 0.12
    assert 0.2 < np.mean(outputs < outputs.mean() / 3) < 0.45
    assert drawn[:60] != drawn[60:120]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"segments": 4}, "segments"),
        ({"segments": 1}, "segments"),
        ({"requests": 0}, "requests"),
        ({"utilisation": 0.0}, "utilisation"),
        ({"longest_output": 0}, "longest_output"),
    ],
)
def test_configurations_name_their_field(changes, field):
    with pytest.raises(ValueError, match=field):
        CalibrateConfig(**changes)
