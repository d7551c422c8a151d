"""Words of a text, for every script: one way of splitting, so that all parts see the same words."""

from __future__ import annotations

import re

# East Asian scripts put no blanks between words: there, one character is one word.
_EAST_ASIAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_EAST_ASIAN}]|[^\W{_EAST_ASIAN}]+|[^\w\s]")


def words(text: str) -> list[str]:
    """Runs of letters and digits in lower case, and every other visible character by itself."""
    found: list[str] = _WORD.findall(text.lower())
    return found
