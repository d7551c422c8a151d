"""Real requests on a real engine, as a calibration sends them."""

import pytest

from engine.backend import TorchBackend
from engine.bench.drive import Driver
from engine.core import policies
from engine.core.request import Request
from engine.core.scheduler import SchedulerConfig


@pytest.fixture
def backend(tiny_model):
    config = SchedulerConfig(4, 64, 16, 64)
    running = TorchBackend(tiny_model, config, policies.make("fcfs"))
    yield running
    running.close()


def test_requests_arrive_in_time_run_to_their_length_and_leave_their_steps(backend, tiny_model):
    driver = Driver(backend, tiny_model.config.vocab_size, seed=0)
    for segment in range(2):
        asked = [
            Request(str(i), 0.01 * i, 5 + i, true_tokens=1 + 3 * i + segment) for i in range(6)
        ]
        seen = driver.run(asked)
        assert [r.prompt_tokens for r in seen.requests] == [r.prompt_tokens for r in asked]
        first = seen.requests[0].arrival
        for real, wanted, timing in zip(seen.requests, asked, seen.timings, strict=True):
            assert real.arrival - first >= wanted.arrival - 0.005
            assert timing.arrival == real.arrival
            assert timing.output_tokens == wanted.true_tokens
        # Of this segment alone: every prompt token, and every token but each first.
        assert sum(step.prefill_tokens for step in seen.steps) == sum(
            r.prompt_tokens for r in asked
        )
        assert sum(step.decodes for step in seen.steps) == sum(r.true_tokens - 1 for r in asked)
