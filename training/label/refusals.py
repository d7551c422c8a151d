"""Prompts that the endpoint refuses: whether it is they, or all of the run."""

from __future__ import annotations

from training.label.answer import Label
from training.label.client import EndpointFailed, PromptRefused

#: So many refused prompts in a row are no accident of theirs.
MOST = 8


class Refusals:
    """Refused prompts of one run. Those since the last answer are open: only an answer shows that
    the endpoint takes what is right, so that they are the fault of their prompts."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._open: dict[str, Label] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, label: Label, error: PromptRefused) -> None:
        """Count the prompt of ``label``, once however many of its draws were in flight.

        Raises ``EndpointFailed`` when too many are open.
        """
        if label.key in self._keys:
            return
        self._keys.add(label.key)
        self._open[label.key] = label
        if len(self._open) >= MOST:
            raise EndpointFailed(f"{MOST} prompts in a row were refused, the last: {error}")

    def settled(self) -> list[Label]:
        """What an answer settles: the first refusal of each open prompt, in order."""
        found = list(self._open.values())
        self._open.clear()
        return found

    @property
    def open(self) -> frozenset[str]:
        """Keys of prompts that no answer came after."""
        return frozenset(self._open)
