"""Headlines: which step runs, what came of it, how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

STEPS = 6


class Narrator:
    """Prints to standard output; ``--json`` runs print nothing here."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(soft_wrap=True, highlight=False, quiet=quiet)
        self.quiet = quiet

    @contextmanager
    def step(self, number: int, title: str) -> Iterator[None]:
        """One of the demo's steps; the time it took is said at its end."""
        self._console.print(Text(f"\n[{number}/{STEPS}] {title}", style="bold"))
        begun = time.monotonic()
        yield
        self._console.print(Text(f"      {time.monotonic() - begun:.0f} s", style="dim"))

    def say(self, line: str, style: str = "") -> None:
        self._console.print(Text(f"      {line}", style=style))
