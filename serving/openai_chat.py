"""Messages of the chat API, and how they go through the model's template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.errors import invalid
from serving.job import ChatTurn
from serving.jsonbody import Fields, check_text, kind
from serving.limits import Limits

_ROLES = ("system", "developer", "user", "assistant")
#: What a caller may not set for the template: it belongs to whoever fills it in.
_RESERVED = (
    "add_generation_prompt", "chat_template", "continue_final_message", "conversation", "messages",
    "tokenize", "return_dict", "return_tensors", "tokenizer_kwargs", "padding", "truncation",
    "max_length", "return_assistant_tokens_mask",
)  # fmt: skip


def turns_of(messages: Any, limits: Limits) -> tuple[ChatTurn, ...]:
    """Raises INVALID naming the field."""
    if not isinstance(messages, list):
        raise invalid("messages", f"must be a list of messages, got {kind(messages)}")
    if len(messages) > limits.max_messages:
        raise invalid("messages", f"at most {limits.max_messages}, got {len(messages)}")
    return tuple(_turn(message, f"messages[{i}]") for i, message in enumerate(messages))


def template_of(fields: Fields) -> Mapping[str, Any]:
    """Arguments of the chat template that differ from the usual. Raises INVALID."""
    chosen: dict[str, Any] = {}
    name = "chat_template_kwargs"
    given = fields.raw(name)
    if given is not None:
        if not isinstance(given, dict):
            raise invalid(name, f"must be an object, got {kind(given)}")
        for key in given:
            if key in _RESERVED:
                raise invalid(name, f"must not set {key}")
        chosen |= given
    adds = fields.flag("add_generation_prompt")
    if fields.flag("continue_final_message"):
        if adds is not False:
            raise invalid(
                "continue_final_message", "needs add_generation_prompt to be false beside it"
            )
        chosen["continue_final_message"] = True
    if adds is False:
        chosen["add_generation_prompt"] = False
    return chosen


def _turn(message: object, where: str) -> ChatTurn:
    if not isinstance(message, dict):
        raise invalid(where, f"must be an object, got {kind(message)}")
    fields = Fields(message, where)
    nothing = {"tool_calls": ([],), "refusal": ("",), "function_call": (), "audio": ()}
    # What our own answers hold comes back in conversations.
    fields.only(("role", "content", "name", "annotations", "reasoning_content"), nothing)
    role = fields.text("role")
    if role not in _ROLES:
        raise invalid(f"{where}.role", "must be system, developer, user or assistant")
    content = fields.raw("content")
    if isinstance(content, list):
        content = "".join(_part(part, f"{where}.content[{i}]") for i, part in enumerate(content))
    if content is None:
        raise invalid(f"{where}.content", "must be set")
    return ChatTurn(
        "system" if role == "developer" else role, check_text(content, f"{where}.content")
    )


def _part(part: object, where: str) -> str:
    if not isinstance(part, dict):
        raise invalid(where, f"must be an object, got {kind(part)}")
    fields = Fields(part, where)
    if fields.text("type") != "text":
        raise invalid(f"{where}.type", "only parts of type text are supported")
    fields.only(("type", "text"), {})
    text = fields.text("text")
    if text is None:
        raise invalid(f"{where}.text", "must be set")
    return text
