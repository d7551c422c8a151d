"""Real requests on a real engine, as a calibration sends them."""

import pytest

from engine.backend import TorchBackend
from engine.bench.clocks import ProcessorClock, WallClock
from engine.bench.drive import Driver
from engine.core import policies
from engine.core.request import Request
from engine.core.scheduler import SchedulerConfig


@pytest.fixture
def make_driver(tiny_model):
    backends = []

    def make(clock):
        config = SchedulerConfig(4, 64, 16, 64)
        backend = TorchBackend(tiny_model, config, policies.make("fcfs"), clock=clock.now)
        backends.append(backend)
        return Driver(backend, clock, tiny_model.config.vocab_size, seed=0)

    yield make
    for backend in backends:
        backend.close()


@pytest.mark.parametrize("clock", [WallClock, ProcessorClock])
def test_requests_arrive_in_time_run_to_their_length_and_leave_their_steps(make_driver, clock):
    driver = make_driver(clock())
    for segment in range(2):
        asked = [
            Request(str(i), 0.01 * i, 5 + i, true_tokens=1 + 3 * i + segment) for i in range(6)
        ]
        seen = driver.run(asked)
        assert [r.prompt_tokens for r in seen.requests] == [r.prompt_tokens for r in asked]
        first = seen.requests[0].arrival
        for real, wanted, timing in zip(seen.requests, asked, seen.timings, strict=True):
            # The first may have been a moment late.
            assert real.arrival - first >= wanted.arrival - 0.05
            assert timing.arrival <= timing.first_token <= timing.finished
            assert timing.arrival == real.arrival
            assert timing.output_tokens == wanted.true_tokens
        # Of this segment alone: every prompt token, and every token but each first.
        assert sum(step.prefill_tokens for step in seen.steps) == sum(
            r.prompt_tokens for r in asked
        )
        assert sum(step.decodes for step in seen.steps) == sum(r.true_tokens - 1 for r in asked)


async def test_processor_time_stands_still_with_the_process_and_jumps_over_idle_time():
    ran = iter(range(100))
    clock = ProcessorClock(lambda: float(next(ran)))
    assert clock.now() == 0.0
    # The engine works: time passes as the process runs, a second with every look here.
    await clock.until(5.0, lambda: False)
    assert clock.now() == 6.0
    # It has nothing to do: the next request is there at once.
    await clock.until(50.0, lambda: True)
    assert clock.now() == 51.0
    await clock.until(3.0, lambda: True)
    assert clock.now() == 53.0
