"""A prompt read once, for all the groups of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranker.window import Window
from ranker.words import words


@dataclass(frozen=True, slots=True)
class Reading:
    """``text`` is what the window shows of a prompt of ``length`` characters; ``words`` as
    :func:`ranker.words.words` splits it; ``points`` are its code points, uint32 [characters]."""

    length: int
    text: str
    words: list[str]
    points: NDArray[np.uint32]

    @classmethod
    def of(cls, prompt: str, window: Window) -> Reading:
        text = window.cut(prompt)
        # One array of code points: counting classes of characters in Python would cost most.
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return cls(len(prompt), text, words(text), points)
