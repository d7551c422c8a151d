"""How novelty is fitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ranker.ngrams import NgramConfig


@dataclass(frozen=True, slots=True)
class NoveltyConfig:
    """``shrinkage`` of the covariance of the features towards a multiple of the identity (Ledoit
    & Wolf 2004).

    Of the contrast with reference prompts: ``outlines`` are its n-grams, ``penalty`` that of its
    logistic regression, ``most_rows`` the own prompts that it is fitted to. It counts in full once
    it tells held-out prompts of both sides apart with an AUROC of ``clear``, and not at all at .5.
    ``distance_share`` is the part of all alarms that is then left to the distance.
    """

    shrinkage: float = 0.1
    outlines: NgramConfig = field(default_factory=lambda: NgramConfig(3, 16, 0))
    penalty: float = 1.0
    most_rows: int = 20_000
    clear: float = 0.75
    distance_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.shrinkage <= 1.0:
            raise ValueError(f"novelty.shrinkage must lie in (0, 1], got {self.shrinkage}")
        if not self.penalty > 0.0:
            raise ValueError(f"novelty.penalty must be positive, got {self.penalty}")
        if self.most_rows < 100:
            raise ValueError(f"novelty.most_rows must be at least 100, got {self.most_rows}")
        if not 0.5 < self.clear <= 1.0:
            raise ValueError(f"novelty.clear must lie in (0.5, 1], got {self.clear}")
        if not 0.0 < self.distance_share <= 1.0:
            raise ValueError(
                f"novelty.distance_share must lie in (0, 1], got {self.distance_share}"
            )
