"""An executor that stands in for the model, and how to read what comes out of the loop."""

import asyncio
import threading

from engine.core.scheduler import SchedulerConfig
from engine.detokenise import InContext
from engine.events import Ended, Tokens
from engine.sequence import Sequence
from engine.token import Token

EOS = 0
CONFIG = SchedulerConfig(4, 64, 4, 64, max_waiting=4)


class Script:
    """Gives 5, 6, 7, ... and EOS after ``length`` tokens. ``gate`` holds each step back."""

    def __init__(self, length=6):
        self.length = length
        self.sequences: dict[str, Sequence] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.fail_next: BaseException | None = None
        self.silent: set[str] = set()
        self.drafted: dict[str, int] = {}

    def add(self, request_id, prompt_ids, sampling):
        if request_id in self.sequences:
            raise ValueError(f"request_id {request_id!r} is in use")
        self.sequences[request_id] = Sequence.start(request_id, prompt_ids, sampling)

    def prompt(self, request_id):
        return self.sequences[request_id].scored_prompt

    def remove(self, request_id):
        self.sequences.pop(request_id, None)

    def run(self, plan):
        self.entered.release()
        assert self.gate.wait(20)
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        tokens = {}
        for step in plan.steps:
            if step.samples and step.request_id not in self.silent:
                sequence = self.sequences[step.request_id]
                done = sequence.output_tokens + 1 >= self.length
                token = Token(EOS if done else 5 + sequence.output_tokens)
                tokens[step.request_id] = (token,)
                sequence.append(token.id)
        return tokens


def decode(ids):
    return "".join(chr(97 + i) for i in ids if i != EOS)


def texts(skip_special):
    return InContext(decode)


async def collect(stream):
    events = [event async for event in stream]
    assert all(isinstance(event, Tokens) for event in events[:-1])
    assert isinstance(events[-1], Ended)
    text = "".join(event.text for event in events[:-1])
    return text, [i for event in events[:-1] for i in event.token_ids], events[-1]


async def entered(script):
    """A step of the model has begun."""
    assert await asyncio.to_thread(script.entered.acquire, timeout=20)
