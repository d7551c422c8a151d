"""The length that a prompt asks for: "in 50 words", "three paragraphs", "top 10", "20 ideas"."""

from __future__ import annotations

import math

from ranker.features.reading import Reading

NAMES: tuple[str, ...] = ("log_requested_tokens", "requested_unit", "requests", "requests_at_most")

# Tokens of one unit, by what readers and writers usually mean by it: a rough scale is enough,
# since trees read the order of the products only.
_MEASURES: dict[str, float] = {
    name: tokens
    for tokens, names in (
        (0.25, "character characters char chars letter letters"),
        (1.35, "word words token tokens"),
        (12, "line lines"),
        (25, "sentence sentences"),
        (60, "stanza stanzas"),
        (110, "paragraph paragraphs"),
        (160, "minute minutes min"),
        (600, "page pages"),
    )
    for name in names.split()
}
_THINGS: dict[str, float] = {
    name: tokens
    for tokens, names in (
        (12, "names titles keywords synonyms hashtags slogans headlines domains emojis verses"),
        (25, "taglines facts questions columns bullets"),
        (40, "ideas examples tips items reasons points ways steps tweets topics things benefits"),
        (40, "rows suggestions options prompts quotes strategies factors books movies tools"),
        (40, "websites companies places recipes activities exercises variations"),
        (60, "captions messages emails posts"),
        (110, "scenes sections slides days weeks"),
        (600, "articles essays chapters stories blogs"),
    )
    for name in names.split()
}
_NUMBERS: dict[str, int] = {
    name: number
    for number, names in (
        (1, "one single"),
        (2, "two couple"),
        (3, "three few"),
        (4, "four several"),
        (5, "five"),
        (6, "six"),
        (7, "seven"),
        (8, "eight"),
        (9, "nine"),
        (10, "ten"),
        (11, "eleven"),
        (12, "twelve dozen"),
        (15, "fifteen"),
        (20, "twenty"),
        (30, "thirty"),
        (50, "fifty"),
        (100, "hundred"),
    )
    for name in names.split()
}
_LIMITS = frozenset(
    ("under", "below", "less", "within", "maximum", "max", "most", "limit", "fewer", "exceed")
)
_AHEAD = 4  # words between the number and its unit: "10 short but catchy titles"
_RANKED = 40.0  # tokens of an item of "top 10 ...", whatever it is
_MOST = 20_000.0


def _unit(words: list[str], start: int) -> float:
    """Tokens of the unit that follows a number; 0 without one. A measure ends the search, of other
    nouns the last one counts: "20 blog post ideas" are ideas, "200 words essay" are words."""
    found = 0.0
    for word in words[start : start + _AHEAD]:
        if word in _MEASURES:
            return _MEASURES[word]
        found = _THINGS.get(word, found)
        if not word.isalnum() and word != "-":
            break
    return found


def _number(words: list[str], at: int) -> int:
    """The number that ends at word ``at``; 0 when there is none. "2,000" is three words."""
    word = words[at]
    if not word.isdecimal():
        return _NUMBERS.get(word, 0)
    thousands = at >= 2 and len(word) == 3 and words[at - 1] in ",." and words[at - 2].isdecimal()
    return int(word[:6]) + (1000 * int(words[at - 2][:3]) if thousands else 0)


def measure(reading: Reading) -> tuple[float, ...]:
    """Tokens of the largest request, tokens of one of its units, how many there are, and how many
    of them are upper bounds; zeros without one."""
    words = reading.words
    largest, unit, found, limits = 0.0, 0.0, 0, 0
    for at in range(len(words)):
        number = _number(words, at)
        if not number:
            continue
        tokens = _unit(words, at + 1)
        if not tokens and at and words[at - 1] == "top":
            tokens = _RANKED
        if not tokens:
            continue
        found += 1
        limits += not _LIMITS.isdisjoint(words[max(0, at - 3) : at + 5])
        if number * tokens > largest:
            largest, unit = min(_MOST, number * tokens), tokens
    return (math.log1p(largest), unit, found, limits)
