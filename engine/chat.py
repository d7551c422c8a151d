"""Turns of a conversation as the prompt that a model was trained to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Turns = Sequence[tuple[str, str]]


def render(tokenizer: Any, turns: Turns, **template: Any) -> str:
    """``(role, content)`` turns under the template of ``tokenizer``, ready to be answered.

    ``template``: arguments of the template and of ``apply_chat_template``, in place of the usual.
    Raises ``ValueError`` when the template refuses them or there is none; the message says what
    it doesn't take, and quotes nobody.
    """
    if not tokenizer.chat_template:
        raise ValueError("this model has no chat template; send a prompt instead")
    if not turns:
        raise ValueError("messages must not be empty")
    try:
        return _apply(tokenizer, turns, template)
    except Exception as error:
        # Templates raise jinja2 errors of their own wording, which may quote the messages.
        raise ValueError(
            f"the model's chat template refuses these messages ({type(error).__name__})"
            f"{_reason(tokenizer, turns)}"
        ) from None


def _apply(tokenizer: Any, turns: Turns, template: Mapping[str, Any]) -> str:
    messages = [{"role": role, "content": content} for role, content in turns]
    arguments = {"add_generation_prompt": True, **template, "tokenize": False}
    text: str = tokenizer.apply_chat_template(messages, **arguments)
    return text


def _reason(tokenizer: Any, turns: Turns) -> str:
    """What the template would have taken instead, found by trying."""
    rest = [turn for turn in turns if turn[0] != "system"]
    if len(rest) < len(turns) and rest and _takes(tokenizer, rest):
        return ": it has no place for a system message; begin the first user message with it"
    roles = [role for role, _ in rest]
    unknown = sorted(set(roles) - {"user", "assistant"})
    if not unknown:
        taking = [("user", "a"), ("assistant", "b"), ("user", "c")]
        in_turn = roles == ["user" if i % 2 == 0 else "assistant" for i in range(len(roles))]
        if not in_turn and _takes(tokenizer, taking):
            return ": roles must alternate user, assistant, user, beginning with user"
    return ""


def _takes(tokenizer: Any, turns: Turns) -> bool:
    try:
        _apply(tokenizer, turns, {})
    except Exception:
        return False
    return True
