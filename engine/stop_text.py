"""Texts that end a generation: found across tokens, and never shown in part."""

from __future__ import annotations

from collections.abc import Sequence


class StopTexts:
    """Looks for ``stops`` in a text that comes in pieces.

    The text ends with the first that is complete, the longest of them if several are; where it is
    cut does not depend on how the text came in pieces. ``include``: show the text that ended it.
    """

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        self._searches = [_Search(stop) for stop in stops]
        self._include = include
        self._held = ""
        #: The text that was found.
        self.found: str | None = None

    def add(self, piece: str) -> str:
        """What can be shown now: all but what may be the beginning of a stop text."""
        if not self._searches:
            return piece
        text, base = self._held + piece, len(self._held)
        for at, character in enumerate(piece, start=base + 1):
            done = [search.text for search in self._searches if search.step(character)]
            if done:
                self.found, self._held = max(done, key=len), ""
                return text[: at if self._include else at - len(self.found)]
        shown = len(text) - max(search.matched for search in self._searches)
        self._held = text[shown:]
        return text[:shown]

    def finish(self) -> str:
        """What was held back, when no text follows."""
        held, self._held = self._held, ""
        return held


class _Search:
    """One text by Knuth, Morris and Pratt: a bounded amount of work for each character."""

    def __init__(self, text: str) -> None:
        self.text = text
        #: Characters of ``text`` that the text read so far ends in.
        self.matched = 0
        self._border = [0] * len(text)
        for at in range(1, len(text)):
            matched = self._border[at - 1]
            while matched and text[at] != text[matched]:
                matched = self._border[matched - 1]
            self._border[at] = matched + (text[at] == text[matched])

    def step(self, character: str) -> bool:
        """Whether ``character`` completes the text. Not to be called again then."""
        while self.matched and character != self.text[self.matched]:
            self.matched = self._border[self.matched - 1]
        self.matched += character == self.text[self.matched]
        return self.matched == len(self.text)
