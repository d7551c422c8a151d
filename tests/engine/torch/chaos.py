"""Everything that may happen around a request, at random steps."""

import random
from dataclasses import replace

from engine.core import policies
from engine.core.config import AdmissionConfig, AdmissionMode, PreemptionConfig
from engine.core.costs import CostModel
from engine.core.lanes import Lane, LaneConfig
from engine.core.scheduler import SchedulerConfig
from engine.sampling import SamplingParams
from ranker.types import Forecast
from tests.engine.torch.drafters import ALWAYS
from tests.engine.torch.server import Server

#: Long prompts are cheap to move to the host and back, short ones cheap to compute again.
_COST = CostModel(0.01, 0.001, 0.001, swap=0.0004)
#: Chunks of prompts, few slots, and too little memory for those that run.
_CONFIG = SchedulerConfig(
    max_num_seqs=6,
    max_num_batched_tokens=40,
    block_size=8,
    num_blocks=24,
    host_blocks=24,
    cost=_COST,
    admission=AdmissionConfig(AdmissionMode.OFF),
    preemption=PreemptionConfig(),
)
_NOISE = "noise"


def storm(model, prompts, sampling, seed, *, drafter=None, **changes):
    """Serve ``prompts`` while neighbours come, are urgent, and are aborted; requests change lanes,
    and so policies, and forecasts; slots and memory are taken away. The server, with the tokens
    of ``prompts`` alone. ``changes`` to the scheduler's configuration.
    """
    draw = random.Random(seed)
    lanes = [
        Lane(LaneConfig("first"), policies.make("priority:preempts=yes")),
        Lane(LaneConfig("learned"), policies.make("srpt_predicted", cost=_COST, batch=6,
                                                  serving=True)),
        Lane(LaneConfig("chat", reclaim=True, precedence=-1), policies.make("fcfs")),
    ]  # fmt: skip
    speculation = None if drafter is None else ALWAYS
    config = replace(_CONFIG, **changes)
    server = Server(model, config, lanes, speculation=speculation, drafter=drafter)
    waiting = list(prompts)
    draw.shuffle(waiting)
    noise, count = set(), 0
    while waiting or server.scheduler.has_work:
        held = [name for name in (*prompts, *noise) if server.scheduler.get(name)]
        if waiting and draw.random() < 0.6:
            name = waiting.pop()
            server.submit(
                name, prompts[name], sampling[name], priority=draw.randint(0, 9),
                lane=draw.choice(lanes).name, forecast=_forecast(draw),
            )  # fmt: skip
        if waiting and draw.random() < 0.2:
            name, count = f"{_NOISE}{count}", count + 1
            noise.add(name)
            # Begins like another, so that blocks are shared with one that may vanish.
            ours = [name for name in held if name in prompts] or list(prompts)
            like = prompts[draw.choice(ours)]
            server.submit(
                name, [*like[: draw.randint(len(like) // 2, len(like))], 7],
                SamplingParams(max_tokens=draw.randint(1, 12), temperature=0.0), priority=-1,
            )  # fmt: skip
        gone = [name for name in noise if server.scheduler.get(name)]
        if gone and draw.random() < 0.15:
            server.abort(draw.choice(sorted(gone)))
        if held and draw.random() < 0.2:
            server.scheduler.move(draw.choice(held), draw.choice(lanes).name, float(count))
        if held and draw.random() < 0.2:
            server.scheduler.reforecast(draw.choice(held), _forecast(draw))
        if server.scheduler.has_work:
            assert server.step(), "nothing can run"
    server.tokens = {name: server.tokens[name] for name in prompts}
    return server


def _forecast(draw):
    median = draw.uniform(1, 60)
    return Forecast(median, (median / 2, median, 2 * median), "r", "1", (0.1, 0.5, 0.9))
