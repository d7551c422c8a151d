"""What is sent back of a call's generations, in one piece or as a stream of events."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from engine.events import Ended, Tokens
from engine.token import Token
from serving import openai_extra as extra
from serving.choices import Choices
from serving.errors import Kind, RequestError, openai_body
from serving.generation import failure_of
from serving.generator import Generator
from serving.logs import failure
from serving.openai_answer import Answer, counts
from serving.openai_schema import Call
from serving.sse import DONE, event

log = logging.getLogger(__name__)

FAILED = RequestError(Kind.INTERNAL, "the engine could not finish this request; try again")


class Choice:
    """What one generation said so far, as far as it is shown."""

    def __init__(self, reply: Reply, place: int) -> None:
        call, generation = reply.call, reply.choices[place]
        self._only_prompt = call.only_prompt
        self._told = call.logprobs is not None
        self._probabilities = reply.answer.logprobs(reply.token_bytes, call.logprobs or 0)
        job = call.jobs[place // reply.choices.each]
        self.text = ""
        if call.echo:
            ids = generation.prompt_ids
            self.text = reply.text(ids) if job.prompt is None else job.prompt
        #: Not told yet.
        self.tokens: list[Token] = []
        self.prompt_tokens = generation.prompt_tokens
        self.output_tokens = 0
        self.total = 0.0  #: of the log probabilities, where there are any
        self.ended: Ended | None = None

    def add(self, happened: Tokens) -> None:
        if not self._only_prompt:
            self.text += happened.text
            self.tokens += happened.tokens
            self.output_tokens += len(happened.tokens)
        self.total += sum(token.logprob or 0.0 for token in happened.tokens)

    def end(self, happened: Ended) -> None:
        """Raises ``RequestError`` when it did not end by itself."""
        if (failed := failure_of(happened)) is not None:
            raise failed
        shown = 0 if self._only_prompt else happened.output_tokens
        self.ended = replace(happened, output_tokens=shown)

    @property
    def mean(self) -> float:
        """By which the best of several answers are chosen."""
        return self.total / max(1, self.output_tokens)

    def take(self) -> tuple[str, dict[str, Any] | None]:
        """Text and log probabilities that were not taken yet."""
        text, self.text = self.text, ""
        tokens, self.tokens = self.tokens, []
        return text, self._probabilities.add(tokens) if self._told and tokens else None


class Reply:
    """``answer`` of ``choices``, which were started for ``call``."""

    def __init__(self, call: Call, choices: Choices, answer: Answer, generator: Generator) -> None:
        self.call = call
        self.choices = choices
        self.answer = answer
        self.text = generator.text
        self.token_bytes = generator.token_bytes
        self._each = [Choice(self, place) for place in range(len(choices))]
        self._told = extra.accepted(choices[0])

    async def whole(self) -> dict[str, Any]:
        """The body. Raises ``RequestError`` when the engine fails one of the generations."""
        async with aclosing(self.choices.events()) as events:  # type: ignore[type-var]
            async for place, happened in events:
                if isinstance(happened, Ended):
                    self._each[place].end(happened)
                else:
                    self._add(place, happened)
        sent = []
        for choice in self._best():
            if choice.ended is None:
                raise FAILED
            sent.append((*choice.take(), choice.ended))
        body = self.answer.whole(sent, self._counts())
        return extra.tell(body, self._told | extra.last(self.choices[0], sent[0][2]))

    async def stream(self) -> AsyncIterator[bytes]:
        """The events. An error after the first byte can only be an event itself."""
        if self._told:
            yield event(extra.tell(self.answer.told(), self._told))
        begun: set[int] = set()
        try:
            async with aclosing(self.choices.events()) as events:  # type: ignore[type-var]
                async for place, happened in events:
                    if place not in begun:
                        # Not before there is a token: clients take this for the first one.
                        begun.add(place)
                        for chunk in self.answer.first(place):
                            yield event(self._counted(chunk, place))
                    if (piece := self._chunk(place, happened)) is not None:
                        yield event(piece)
            if self.call.streaming.usage:
                yield event(self.answer.usage(self._counts()))
        except RequestError as error:
            yield event(openai_body(error))
        except Exception as error:
            log.error("%s", failure(error))
            yield event(openai_body(FAILED))
        yield DONE

    def _chunk(self, place: int, happened: Tokens | Ended) -> dict[str, Any] | None:
        """Of one event; ``None`` while there is nothing to show."""
        choice, generation = self._each[place], self.choices[place]
        if isinstance(happened, Tokens):
            self._add(place, happened)
            if not choice.text:
                return None
            chunk = self.answer.chunk(place, *choice.take())
            return self._counted(extra.tell(chunk, extra.chunk(generation)), place)
        choice.end(happened)
        text, logprobs = choice.take()
        assert choice.ended is not None
        last = self.answer.last(place, choice.ended, text, logprobs)
        return self._counted(extra.tell(last, extra.last(generation, happened)), place)

    def _add(self, place: int, happened: Tokens) -> None:
        if happened.prompt:  # told by the first alone, before any other speaks
            for choice in self._each[place : place + self.choices.each]:
                choice.tokens += happened.prompt
        self._each[place].add(happened)

    def _best(self) -> list[Choice]:
        """As many as were asked for, of each prompt; the likeliest first, if more were made."""
        call, each = self.call, self.choices.each
        families = [self._each[at : at + each] for at in range(0, len(self._each), each)]
        if call.best_of > call.n:
            for family in families:
                family.sort(key=lambda choice: choice.mean, reverse=True)
        return [choice for family in families for choice in family[: call.n]]

    def _counted(self, chunk: dict[str, Any], place: int) -> dict[str, Any]:
        """With the counts so far, where they were asked for; null, where only in the end."""
        streaming, choice = self.call.streaming, self._each[place]
        if streaming.running:
            return chunk | {"usage": counts(choice.prompt_tokens, choice.output_tokens, None)}
        return chunk | {"usage": None} if streaming.usage else chunk

    def _counts(self) -> dict[str, Any]:
        """Each prompt once, and all that was generated."""
        leaders = self._each[:: self.choices.each]
        return counts(
            sum(choice.prompt_tokens for choice in leaders),
            sum(choice.ended.output_tokens for choice in self._each if choice.ended is not None),
            sum(choice.ended.cached_tokens for choice in leaders if choice.ended is not None),
        )
