"""Shortest prompt first: what an engine can do without any forecast."""

from __future__ import annotations

from engine.core.policies.base import Key, Static
from engine.core.request import Request


class PromptSjf(Static):
    """Order of prompt tokens, as SGLang's shortest-prefill-first and the shortest-job-first
    schedulers proposed for vLLM (RFC 29406, PR 29366) have it. Prompts say little about answers
    in chat, so this is a baseline; it has no bound on waiting.
    """

    name = "prompt_sjf"

    def key(self, request: Request) -> Key:
        return (float(request.prompt_tokens), request.arrival)
