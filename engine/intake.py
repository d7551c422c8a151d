"""What callers submit, as requests that the scheduler can hold."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.request import Request
from engine.hashing import BlockHasher, HashChain
from engine.sampling import SamplingParams
from engine.stop import StopRule
from ranker.types import Forecast


class Intake:
    """``hasher`` names what blocks hold, for the prefix cache; ``lane``: of requests that name
    none."""

    def __init__(self, stop: StopRule, hasher: BlockHasher | None, lane: str) -> None:
        self._stop = stop
        self._hasher = hasher
        self._lane = lane

    def request(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        forecast: Forecast | None,
        *,
        tenant: str,
        lane: str,
        priority: int,
        arrival: float,
    ) -> tuple[Request, HashChain | None]:
        """A new request, and the chain that names its blocks; ``None``: it shares none.

        ``arrival`` in seconds of the loop's clock; an empty ``lane`` names none.

        Raises ``ValueError`` when the prompt leaves no room for an answer.
        """
        if self._stop.limit(len(prompt_ids), sampling.max_tokens) < 1:
            raise ValueError(
                f"prompt has {len(prompt_ids)} tokens; the model takes {self._stop.window} in "
                "prompt and answer together"
            )
        # A prompt that is scored is computed in full, whatever others left in the prefix cache.
        hasher = self._hasher if sampling.prompt_logprobs is None else None
        chain = None if hasher is None else hasher.chain(prompt_ids)
        request = Request(
            request_id, arrival, len(prompt_ids), forecast,
            tenant=tenant, lane=lane or self._lane, priority=priority,
            block_hashes=() if chain is None else chain.hashes,
        )  # fmt: skip
        return request, chain
