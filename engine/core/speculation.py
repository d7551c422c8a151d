"""How many tokens to draft ahead: as many as the load leaves room for, often none.

A step that verifies k drafts for each of B requests yields ``(1 − a^(k+1)) / (1 − a)`` tokens per
request at acceptance rate a (Leviathan et al. 2023, arXiv 2211.17192, eq. 1) and costs B·k tokens
more. Few requests leave a step memory-bound and drafts nearly free; many make it compute-bound and
drafts cost goodput (vllm issues 4565, 49548). The same rule stands for n-gram lookup, whose drafts
cost nothing, and for a draft model.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.costs import CostModel


@dataclass(frozen=True, slots=True)
class SpeculationConfig:
    """max_drafts: tokens drafted per request and step at most.

    draft_seconds: what drafting one token ahead for the whole batch costs, a pass of the draft
    model; 0 for n-gram lookup. prior: acceptance rate assumed until drafts were seen. memory:
    drafts that the measured rate averages over. probe_every: while drafting does not pay, one step
    of so many drafts a single token, to notice when it would.

    Raises ``ValueError`` naming the field.
    """

    max_drafts: int = 4
    draft_seconds: float = 0.0
    prior: float = 0.6
    memory: int = 256
    probe_every: int = 64

    def __post_init__(self) -> None:
        for name in ("max_drafts", "memory", "probe_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"speculation.{name} must be >= 1, got {getattr(self, name)}")
        if not self.draft_seconds >= 0.0:
            raise ValueError(f"speculation.draft_seconds must be >= 0, got {self.draft_seconds}")
        if not 0.0 <= self.prior < 1.0:
            raise ValueError(f"speculation.prior must lie in [0, 1), got {self.prior}")


class Speculation:
    """Chooses the draft length of each step and learns the acceptance rate."""

    def __init__(self, config: SpeculationConfig, cost: CostModel) -> None:
        self.config = config
        self._cost = cost
        self._rate = config.prior
        self._steps = 0

    @property
    def rate(self) -> float:
        """Share of drafts accepted, averaged over the last ones."""
        return self._rate

    def length(self, batch: int, budget: int) -> int:
        """Drafts per request for a step of ``batch`` decodes with ``budget`` tokens to spare."""
        most = min(self.config.max_drafts, budget // batch if batch else 0)
        if most < 1:
            return 0
        self._steps += 1
        best = max(range(most + 1), key=lambda drafts: self._goodput(batch, drafts))
        if best == 0 and self._steps % self.config.probe_every == 0:
            return 1
        return best

    def record(self, drafted: int, accepted: int) -> None:
        """Learn from one request's drafts: verification stops at the first that is refused.

        Raises ``ValueError`` when more were accepted than drafted.
        """
        if not 0 <= accepted <= drafted:
            raise ValueError(f"accepted must lie in [0, {drafted}], got {accepted}")
        # Drafts behind a refused one were never judged.
        judged = accepted + (accepted < drafted)
        for i in range(judged):
            self._rate += (float(i < accepted) - self._rate) / self.config.memory
        self._rate = min(self._rate, 0.999)

    def _goodput(self, batch: int, drafts: int) -> float:
        tokens = (1.0 - self._rate ** (drafts + 1)) / (1.0 - self._rate)
        seconds = self._cost.step(batch, batch * drafts) + self.config.draft_seconds * drafts
        return batch * tokens / seconds
