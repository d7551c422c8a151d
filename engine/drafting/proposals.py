"""Guesses for the drafts of a plan, checked: what is verified is never more than was asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from engine.core.plan import Plan
from engine.drafting.drafter import Drafter, Wanted
from engine.sequence import Sequence

log = logging.getLogger(__name__)


class Proposals:
    """Asks ``drafter``; tokens outside the ``vocabulary`` and beyond the ``window`` of the model
    are not for it to guess."""

    def __init__(self, drafter: Drafter | None, vocabulary: int, window: int) -> None:
        self._drafter = drafter
        self._vocabulary = vocabulary
        self._window = window

    def fill(
        self, plan: Plan, sequences: Mapping[str, Sequence]
    ) -> tuple[Plan, dict[str, list[int]]]:
        """``plan`` with as many drafts as there are guesses, and these by request.

        A drafter that fails has no guesses: a step is never lost over them.
        """
        wanted = [
            Wanted(sequences[step.request_id], self._most(sequences[step.request_id], step.drafts))
            for step in plan.steps
            if step.drafts
        ]
        if not wanted:
            return plan, {}
        drafts = self._ask([each for each in wanted if each.most > 0])
        steps = []
        for step in plan.steps:
            if step.drafts:
                count = len(drafts.get(step.request_id, ()))
                step = step._replace(tokens=step.tokens - step.drafts + count, drafts=count)
            steps.append(step)
        return replace(plan, steps=tuple(steps)), drafts

    def forget(self, request_id: str) -> None:
        if self._drafter is not None:
            self._drafter.forget(request_id)

    def _most(self, sequence: Sequence, drafts: int) -> int:
        """The token behind the last draft must still be wanted."""
        room = self._window - len(sequence.tokens)
        limit = sequence.sampling.max_tokens
        if limit is not None:
            room = min(room, limit - sequence.output_tokens)
        return min(drafts, room - 1)

    def _ask(self, wanted: list[Wanted]) -> dict[str, list[int]]:
        if self._drafter is None or not wanted:
            return {}
        try:
            guesses = self._drafter.propose(wanted)
        except Exception as error:
            # The type alone: the message of a foreign error might quote an input.
            log.error("no drafts in this step: the drafter failed (%s)", type(error).__name__)
            for each in wanted:
                self.forget(each.sequence.id)
            return {}
        found = {}
        for (sequence, most), tokens in zip(wanted, guesses, strict=True):
            if sound := self._sound(tokens[:most]):
                found[sequence.id] = sound
        return found

    def _sound(self, tokens: list[int]) -> list[int]:
        for count, token in enumerate(tokens):
            if not 0 <= token < self._vocabulary:
                return tokens[:count]
        return tokens
