"""What of a chat a ranker is asked about, and what makes two requests one conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from training.split import plain


def ranked_text(messages: object) -> str | None:
    """What the user said last, as serving asks rankers; else the last message. ``None`` when that
    holds no text."""
    said = _said(messages)
    users = [content for role, content in said if role == "user"]
    found = users[-1] if users else said[-1][1] if said else ""
    return found if found.strip() else None


def opening(messages: object) -> str:
    """What the user said first. A chat sends its history along, so that turns of one conversation
    open alike."""
    return next((content for role, content in _said(messages) if role == "user"), "")


def conversation_of(text: str) -> str:
    """A name for the conversation that ``text`` opens, which tells nothing of it."""
    return hashlib.sha256(plain(text).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def text_of(content: Any) -> str:
    """Text of a message's ``content``, or of its parts that are text; empty where it holds none."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _said(messages: object) -> Sequence[tuple[str, str]]:
    if not isinstance(messages, list):
        return ()
    turns = (message for message in messages if isinstance(message, dict))
    return [(str(turn.get("role")), text_of(turn.get("content"))) for turn in turns]
