"""Scripts and languages, by the share of the characters and of the words."""

from __future__ import annotations

import numpy as np

from ranker.features.reading import Reading

# Edges of the classes of code points; a class runs from its edge to the next.
_EDGES = np.array([0x80, 0x370, 0x400, 0x530, 0x590, 0x900, 0x2000, 0x2E80, 0xAC00, 0x1F000])
_CLASSES = (
    "ascii",
    "latin",
    "greek",
    "cyrillic",
    "armenian",
    "semitic",
    "indic",
    "punctuation_marks",
    "east_asian",
    "hangul",
    "emoji",
)
# Short and frequent words that the language shares with few others.
_FUNCTION_WORDS: dict[str, int] = {
    word: number
    for number, words in enumerate(
        (
            "the and is of to with for that this you are was from your have",
            "el los las una por para con que del como está más qué",
            "le les des une est pour dans avec sur qui vous au aux",
            "der die das und ist nicht ein eine zu mit für auf wie ich",
            "o os um uma não em para com do da ao você são",
            "il gli che per una di sono con della come nel",
        )
    )
    for word in words.split()
}
_LANGUAGES = ("english", "spanish", "french", "german", "portuguese", "italian")
NAMES: tuple[str, ...] = (
    *(f"share_{name}" for name in _CLASSES[1:]),
    *(f"share_{name}" for name in _LANGUAGES),
)


def measure(reading: Reading) -> tuple[float, ...]:
    """Shares of the characters by script (ASCII is what is left) and of the words by language."""
    scripts = [0.0] * (len(_CLASSES) - 1)
    if not reading.text.isascii():
        classes = np.searchsorted(_EDGES, reading.points, side="right")
        counts = np.bincount(classes, minlength=len(_CLASSES))
        scripts = (counts[1:] / len(reading.points)).tolist()
    languages = [0.0] * len(_LANGUAGES)
    each = 1.0 / max(1, len(reading.words))
    for word in reading.words:
        number = _FUNCTION_WORDS.get(word)
        if number is not None:
            languages[number] += each
    return (*scripts, *languages)
