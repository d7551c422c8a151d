"""Where the prompts to label come from."""

from __future__ import annotations

from training.label.prompts import Prompt
from training.sharegpt import ShareGpt


def of_sharegpt(sharegpt: ShareGpt) -> list[Prompt]:
    """What opens a conversation, by the conversation's id."""
    return [Prompt(turn.prompt, turn.conversation_id, turn.split) for turn in sharegpt.first]
