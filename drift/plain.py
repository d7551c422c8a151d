"""Names that others gave, fit for a log or a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    """``text`` with escapes for what isn't printable: served models, tenants and lanes are whatever
    reporters send, and neither begin a line of a log nor command a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
