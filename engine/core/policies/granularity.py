"""How often a running request is keyed anew."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.request import Request


@dataclass(frozen=True, slots=True)
class Granularity:
    """granularity: output tokens after which a running request is keyed anew.

    Its key counts output up to the last multiple alone. Were it exact whenever it is asked for, a
    request that just lost its slot would be keyed with the tokens since, lie before the one that
    runs with an older key, and the two would change places at each step.

    Raises ``ValueError`` naming the field.
    """

    granularity: int = 16

    def __post_init__(self) -> None:
        if self.granularity < 1:
            raise ValueError(f"granularity must be at least 1 token, got {self.granularity}")

    def counted(self, request: Request) -> int:
        """Output tokens that its key counts."""
        return request.output_tokens - request.output_tokens % self.granularity

    def rekey_after(self, request: Request) -> int:
        """Tokens to the next multiple; to the first token, which ends the prefill."""
        if request.output_tokens == 0:
            return 1
        return self.granularity - request.output_tokens % self.granularity
