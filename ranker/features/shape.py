"""Size and shape of a prompt: characters, words, lines, marks, numbers, code."""

from __future__ import annotations

import math
import re

import numpy as np

from ranker.features.reading import Reading

NAMES: tuple[str, ...] = (
    "log_chars",
    "log_words",
    "log_lines",
    "longest_line",
    "first_line",
    "last_line",
    "blank_lines",
    "chars_per_word",
    "distinct_words",
    "questions",
    "full_stops",
    "commas",
    "colons",
    "quotes",
    "brackets",
    "share_digits",
    "share_upper",
    "share_symbols",
    "ends_in_question",
    "ends_in_colon",
    "ends_in_stop",
    "code_fence",
    "code_marks",
    "indented_lines",
    "link",
    "list_items",
    "numbers",
    "log_largest_number",
    "log_first_number",
)
_NUMBER = re.compile(r"\d+")
_ITEM = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])", re.MULTILINE)
_MOST_NUMBERS = 50  # a pasted table of figures must not cost more than a sentence
_LARGEST_NUMBER = 1_000_000


def measure(reading: Reading) -> tuple[float, ...]:
    """One number for each of :data:`NAMES`."""
    text, points, count = reading.text, reading.points, len(reading.words)
    size = max(1, len(text))
    lines = text.split("\n")
    written = [line for line in lines if line.strip()]
    digits = int(np.count_nonzero((points >= 48) & (points <= 57)))
    upper = int(np.count_nonzero((points >= 65) & (points <= 90)))
    lower = int(np.count_nonzero((points >= 97) & (points <= 122)))
    non_ascii = int(np.count_nonzero(points > 127))
    blank = int(np.count_nonzero((points == 32) | ((points >= 9) & (points <= 13))))
    # Long runs of digits are cut before int() so that its cost stays linear.
    numbers = [
        min(int(found[:8]), _LARGEST_NUMBER) for found in _NUMBER.findall(text)[:_MOST_NUMBERS]
    ]
    end = text.rstrip()[-1:]
    return (
        math.log1p(reading.length),
        math.log1p(count),
        math.log1p(len(lines)),
        max(map(len, lines)),
        len(written[0]) if written else 0,
        len(written[-1]) if written else 0,
        len(lines) - len(written),
        len(text) / max(1, count),
        len(set(reading.words)) / max(1, count),
        text.count("?"),
        text.count("."),
        text.count(","),
        text.count(":"),
        text.count('"'),
        text.count("(") + text.count("["),
        digits / size,
        upper / size,
        (len(points) - digits - upper - lower - non_ascii - blank) / size,
        end == "?",
        end == ":",
        end == ".",
        "```" in text,
        text.count("{") + text.count(";"),
        sum(line[:1] in " \t" for line in written),
        "http" in text,
        len(_ITEM.findall(text)),
        len(numbers),
        math.log1p(max(numbers, default=0)),
        math.log1p(numbers[0]) if numbers else 0.0,
    )
