"""What a failed request computed is found by nobody; what others computed stays theirs."""

import pytest

from engine.core.config import SchedulerConfig
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from ranker.types import FinishReason


def step(scheduler, finished=None):
    scheduler.commit(scheduler.schedule(0.0), finished or {}, 0.0)
    scheduler.check_integrity()


@pytest.mark.parametrize(
    ("reason", "found"), [(FinishReason.ERROR, 0), (FinishReason.STOP, 8), (FinishReason.ABORT, 8)]
)
def test_a_retry_of_a_failed_request_computes_everything_again(reason, found):
    scheduler = Scheduler(SchedulerConfig(4, 64, 4, 16), Fcfs())
    hashes = [11, 12]
    holder, failing, retry = (
        Request(name, 0.0, 9, block_hashes=hashes) for name in ("holder", "failing", "retry")
    )
    scheduler.add(holder)
    step(scheduler)
    scheduler.add(failing)
    step(scheduler)
    assert failing.cached_tokens == 8
    step(scheduler, {"failing": reason})
    scheduler.add(retry)
    step(scheduler)
    assert retry.cached_tokens == found
    # The other goes on with the blocks that it holds, and may run to its end.
    assert holder.computed_tokens == 12
    step(scheduler, {"holder": FinishReason.STOP, "retry": FinishReason.STOP})
    assert scheduler.kv_usage == 0.0
