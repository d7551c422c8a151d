"""Progress of ``shortfirst label``: a line that changes on a terminal, else one in a while."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from training.label.answer import Label
from training.label.tally import Tally

#: Seconds between two lines on a pipe.
_EVERY_S = 30.0


class Shown:
    """Shows how far a run of ``total`` labels is, while its block runs."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._tally = Tally(total, began=clock())
        self._live = Live(console=self._console, refresh_per_second=2, transient=True)
        self._said = clock()

    def __enter__(self) -> Shown:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        if self._tally.made:
            self._console.print(self._line())

    def add(self, label: Label) -> None:
        self._tally.add(label)
        if self._console.is_terminal:
            self._live.update(self._line())
        elif self._clock() - self._said >= _EVERY_S:
            self._said = self._clock()
            self._console.print(self._line())

    def _line(self) -> Text:
        return Text(self._tally.line(self._clock()))
