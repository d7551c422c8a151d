"""Numbers read off a prompt: its size, shape and the words that ask for more or for less."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranker.window import Window

#: Columns of :func:`extract`, in order. A saved ranker names them, so that an old one is refused
#: rather than fed the wrong numbers.
FEATURES: tuple[str, ...] = (
    "log_chars",
    "log_words",
    "log_lines",
    "longest_line",
    "chars_per_word",
    "distinct_words",
    "questions",
    "full_stops",
    "commas",
    "colons",
    "share_digits",
    "share_upper",
    "share_symbols",
    "share_non_ascii",
    "share_east_asian",
    "ends_in_question",
    "ends_in_colon",
    "asks_for_little",
    "asks_for_much",
    "code_words",
    "code_fence",
    "code_marks",
    "link",
    "list_items",
    "numbers",
    "log_largest_number",
    "log_first_number",
    "first_word",
    "second_word",
)

_LITTLE = re.compile(
    r"\b(?:short|brief|briefly|concise|one word|one sentence|yes or no|single|only|tl;?dr"
    r"|summar\w+|simple|quick)\b"
)
_MUCH = re.compile(
    r"\b(?:detail\w*|long|essay|article|blog|story|comprehensive|in[- ]depth|complete|full"
    r"|step[- ]by[- ]step|plan|outline|table|report|script|chapter"
    r"|paragraphs?|words|course|guide)\b"
)
_CODE = re.compile(
    r"\b(?:python|javascript|typescript|java|c\+\+|html|css|sql|code|function|class|def|import"
    r"|react|bash|regex|excel|vba)\b"
)
_NUMBER = re.compile(r"\d+")
_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])", re.MULTILINE)
# fmt: off
_OPENERS = {word: number for number, word in enumerate((
    "write", "create", "list", "explain", "what", "how", "why", "can", "make", "give", "generate",
    "translate", "summarize", "rewrite", "fix", "code", "act", "you", "is", "are", "do", "does",
    "please", "continue", "provide", "describe", "tell", "find", "analyze", "design", "help",
    "suggest", "compare", "convert", "in", "i", "the", "this",
))}
# fmt: on
_MOST_NUMBERS = 50  # a pasted table of figures must not cost more than a sentence
_LARGEST_NUMBER = 1_000_000


def _row(prompt: str, window: Window) -> tuple[float, ...]:
    text = window.cut(prompt)
    size = max(1, len(text))
    lower = text.lower()
    words = lower.split()
    lines = text.split("\n")
    # One array of code points: counting classes of characters in Python would dominate the cost.
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    digits = int(np.count_nonzero((points >= 48) & (points <= 57)))
    upper = int(np.count_nonzero((points >= 65) & (points <= 90)))
    lower_letters = int(np.count_nonzero((points >= 97) & (points <= 122)))
    non_ascii = int(np.count_nonzero(points > 127))
    blank = int(np.count_nonzero((points == 32) | ((points >= 9) & (points <= 13))))
    symbols = len(points) - digits - upper - lower_letters - non_ascii - blank
    # Long runs of digits are cut before int() so that its cost stays linear.
    numbers = [
        min(int(found[:8]), _LARGEST_NUMBER) for found in _NUMBER.findall(text)[:_MOST_NUMBERS]
    ]
    end = text.rstrip()[-1:]
    return (
        math.log1p(len(prompt)),
        math.log1p(len(words)),
        math.log1p(len(lines)),
        max(map(len, lines)),
        len(text) / max(1, len(words)),
        len(set(words)) / max(1, len(words)),
        text.count("?"),
        text.count("."),
        text.count(","),
        text.count(":"),
        digits / size,
        upper / size,
        symbols / size,
        non_ascii / size,
        int(np.count_nonzero(points > 0x2E80)) / size,
        end == "?",
        end == ":",
        len(_LITTLE.findall(lower)),
        len(_MUCH.findall(lower)),
        len(_CODE.findall(lower)),
        "```" in text,
        text.count("{") + text.count(";"),
        "http" in text,
        len(_ITEM.findall(text)),
        len(numbers),
        math.log1p(max(numbers, default=0)),
        math.log1p(numbers[0]) if numbers else 0.0,
        _OPENERS.get(words[0], -1) if words else -1,
        _OPENERS.get(words[1], -1) if len(words) > 1 else -1,
    )


def extract(prompts: Sequence[str], window: Window) -> NDArray[np.float64]:
    """Features of each prompt, shape ``[len(prompts), len(FEATURES)]``. Reads ``window`` of it."""
    if not prompts:
        return np.empty((0, len(FEATURES)))
    return np.array([_row(prompt, window) for prompt in prompts], dtype=np.float64)
