"""How much an engine can do: the rate at which arrivals just fill it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Fcfs
from engine.core.request import Request
from engine.replica import Replica
from engine.traces import Trace
from engine.workload import Lengths


def effective_batch(lengths: Lengths, config: SchedulerConfig) -> float:
    """Requests that run at once when many wait: all slots, or as many as memory holds."""
    return max(1.0, min(float(config.max_num_seqs), config.capacity / held(lengths)))


def held(lengths: Lengths) -> float:
    """Tokens that a running request holds on average.

    It grows from its prompt to prompt and answer, and is there in proportion to its answer: the
    mean of ``prompt + output/2`` weighed by output tokens.
    """
    output = lengths.output_tokens.astype(np.float64)
    return float((output * (lengths.prompt_tokens + output / 2.0)).sum() / output.sum())


def utilisation(trace: Trace, config: SchedulerConfig, cost: CostModel) -> float:
    """Seconds of work that arrive per second, in steps of the effective batch.

    Without regard to prefix hits, which save work: see :func:`saturated_rate`.
    """
    work = float(trace.lengths.work(cost, effective_batch(trace.lengths, config)).sum())
    return work / trace.span


def at_utilisation(trace: Trace, share: float, config: SchedulerConfig, cost: CostModel) -> Trace:
    """The trace with its gaps scaled so that its :func:`utilisation` is ``share``."""
    if not share > 0.0:
        raise ValueError(f"utilisation must be above 0, got {share}")
    return trace.scaled(utilisation(trace, config, cost) / share)


def saturated_rate(requests: Sequence[Request], config: SchedulerConfig, cost: CostModel) -> float:
    """Requests per second that the engine ends while enough wait, measured: all are there at once,
    first come, first served, until none waits any more.

    Counts what the formula cannot: prefix hits, chunks of prompts between decodes, preemptions.
    Requests still running then count by the share of their answer that has come.

    Raises ``ValueError`` when all run at once: then nothing is saturated.
    """
    roomy = replace(config, max_waiting=max(config.max_waiting, len(requests)))
    replica = Replica(roomy, Fcfs(), cost)
    for request in sorted(requests, key=lambda request: request.arrival):
        replica.submit(replace(request, arrival=0.0))
    replica.advance(1e-9)
    if not replica.scheduler.num_waiting:
        raise ValueError(f"{len(requests)} requests do not fill {config.max_num_seqs} slots")
    lengths = Lengths(
        np.array([request.prompt_tokens for request in requests]),
        np.array([request.true_tokens for request in requests]),
    )
    whole = float(lengths.work(cost, effective_batch(lengths, config)).sum())
    while replica.scheduler.num_waiting:
        replica.advance(replica.now + whole / 1000)  # how exactly the end is met
    running = replica.scheduler.running
    part = sum(r.output_tokens / r.true_tokens for r in running if r.true_tokens is not None)
    return (len(requests) - len(running) + part) / replica.now
