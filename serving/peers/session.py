"""Both servers up, one of them awake at a time, every workload on each in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from serving.peers.client import Ask, Reply
from serving.peers.cpu import group_seconds
from serving.peers.http import HttpFailed
from serving.peers.load import drive
from serving.peers.measures import Measured, Row
from serving.peers.servers import MODEL, OURS, PEER, Running, Starter
from serving.peers.work import Prompts, Workload
from serving.processes import ServiceFailed, Services

#: Tokens of each answer that warms up.
_WARM = 8
#: How long a server may take to be seen dead after its connections broke.
_DYING_S = 2.0


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds from the start of a process to its first token, by server, in order."""

    seconds: dict[str, tuple[float, ...]]


def order(repetition: int) -> tuple[str, str]:
    """Who goes first in a repetition: A B, B A, A B … so that a drift of the machine favours
    neither."""
    return (OURS, PEER) if repetition % 2 == 0 else (PEER, OURS)


def start(
    starter: Starter,
    services: Services,
    times: int,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[dict[str, Running], Starts]:
    """Start each server ``times`` times, alone; the last of each stays, paused.

    Raises ``ServiceFailed``.
    """
    if times < 1:
        raise ValueError(f"starts must be at least 1, got {times}")
    seconds: dict[str, list[float]] = {OURS: [], PEER: []}
    kept: dict[str, Running] = {}
    for number in range(times):
        for name in order(number):
            running = starter.start(name, f"{name}-{number + 1}")
            seconds[name].append(running.first_token_s)
            say(f"{name}: first token {running.first_token_s:.1f} s after its start")
            if number == times - 1:
                running.service.pause()
                kept[name] = running
            else:
                services.end(running.service)
    return kept, Starts({name: tuple(values) for name, values in seconds.items()})


def run(
    servers: dict[str, Running],
    workloads: Sequence[Workload],
    prompts: Prompts,
    repeats: int,
    tick: Callable[[int], None] = lambda tokens: None,
) -> list[Row]:
    """Every workload ``repeats`` times on each server, in pairs with the same prompts.

    The server that waits is paused: it takes no processor time, though its memory stays. ``tick``
    is told of new events. Raises ``ServiceFailed``, with the end of its log, when a server ends or
    refuses a request.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    rows: list[Row] = []
    for workload in workloads:
        runs: dict[str, list[Measured]] = {OURS: [], PEER: []}
        for repetition in range(repeats):
            asks = prompts.draw(workload, repetition)
            for name in order(repetition):
                with _awake(servers[name]) as server:
                    if repetition == 0:
                        first = asks[: workload.concurrency]
                        _drive(server, [Ask(a.prompt, _warm(a)) for a in first], workload)
                    else:
                        _drive(server, [Ask(asks[0].prompt, 1)], workload)
                    runs[name].append(_measure(server, asks, workload, tick))
        rows.append(Row(workload, {name: tuple(found) for name, found in runs.items()}))
    return rows


def _warm(ask: Ask) -> int:
    return min(_WARM, ask.output_tokens)


@contextmanager
def _awake(server: Running) -> Iterator[Running]:
    server.service.check()
    server.service.resume()
    try:
        yield server
    finally:
        server.service.pause()


def _measure(
    server: Running, asks: Sequence[Ask], workload: Workload, tick: Callable[[int], None]
) -> Measured:
    group = server.service.process.pid
    before = group_seconds(group)
    replies = _drive(server, asks, workload, tick)
    return Measured.of(workload, replies, group_seconds(group) - before)


def _drive(
    server: Running,
    asks: Sequence[Ask],
    workload: Workload,
    tick: Callable[[int], None] = lambda tokens: None,
) -> list[Reply]:
    try:
        return asyncio.run(drive(server.address, MODEL, asks, workload.concurrency, arrived=tick))
    except* (OSError, HttpFailed) as group:
        # The end of its log says more than a connection that broke, which it may do a moment first.
        server.service.settle(_DYING_S)
        server.service.check()
        first = _first(group)
        raise ServiceFailed(
            f"{server.name} failed with {workload.name} clients: {first}; see {server.service.log}"
        ) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
