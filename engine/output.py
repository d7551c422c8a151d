"""One generation's tokens as they are shown, and what ends it."""

from __future__ import annotations

from engine.detokenise import Detokenisers
from engine.sampling import SamplingParams
from engine.stop import StopRule
from engine.stop_text import StopTexts
from ranker.types import FinishReason


class Output:
    """Text and end of a generation whose prompt has ``prompt_tokens``."""

    def __init__(
        self, prompt_tokens: int, sampling: SamplingParams, rule: StopRule, texts: Detokenisers
    ) -> None:
        self._prompt_tokens = prompt_tokens
        self._sampling = sampling
        self._rule = rule
        self._detokeniser = texts(sampling.skip_special_tokens)
        self._stops = StopTexts(sampling.stop, sampling.include_stop_str_in_output)
        self._count = 0
        self.reason: FinishReason | None = None
        #: The stop text or the stop token that ended it; ``None`` for an end-of-sequence token.
        self.stop: str | int | None = None

    def add(self, token: int) -> str:
        """The text that can be shown with ``token``; ``reason`` says whether it is the last."""
        self._count += 1
        sampling = self._sampling
        reason = self._rule.check(token, self._count, self._prompt_tokens, sampling)
        text = ""
        if reason is not FinishReason.STOP or sampling.include_stop_str_in_output:
            text = self._show(self._detokeniser.add(token))
        if self.reason is None and reason is not None:
            self.reason = reason
            if reason is FinishReason.STOP and not self._rule.ends(token, sampling):
                self.stop = token
        return text if self.reason is None else text + self.finish()

    def finish(self) -> str:
        """Text that was held back, for a generation that gets no more tokens."""
        if self._stops.found is not None:
            return ""
        return self._show(self._detokeniser.finish()) + self._stops.finish()

    def _show(self, piece: str) -> str:
        if self._count <= self._sampling.min_tokens:
            return piece
        text = self._stops.add(piece)
        if self._stops.found is not None:
            self.reason, self.stop = FinishReason.STOP, self._stops.found
        return text
