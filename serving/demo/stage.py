"""Headlines: which step runs, what came of it, how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

STEPS = 6
_INDENT = (0, 0, 0, 6)
_BLANKS = Text(" " * _INDENT[3])


class Narrator:
    """Prints to standard output; ``--json`` runs print nothing here."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self.quiet = quiet

    @contextmanager
    def step(self, number: int, title: str) -> Iterator[None]:
        """One of the demo's steps; the time it took is said at its end."""
        self._print(Text(f"\n[{number}/{STEPS}] {title}", style="bold"))
        begun = time.monotonic()
        yield
        self.say(f"{time.monotonic() - begun:.0f} s", "dim")

    def say(self, line: str, style: str = "") -> None:
        """One line, indented; a terminal breaks it between words, a pipe gets it whole."""
        text = Text(line, style=style)
        self._print(Padding(text, _INDENT) if self._console.is_terminal else _BLANKS + text)

    def address(self, line: str) -> None:
        """A line to copy: never broken."""
        self._console.print(_BLANKS + Text(line), soft_wrap=True)

    def _print(self, what: RenderableType) -> None:
        self._console.print(what, soft_wrap=not self._console.is_terminal)
