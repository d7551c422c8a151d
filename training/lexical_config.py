"""How the lexical tier is trained."""

from __future__ import annotations

from dataclasses import dataclass, field

from ranker.ngrams import NgramConfig
from ranker.window import Window
from training.lists import ListConfig
from training.settings import flat

OBJECTIVES = ("regression_l1", "regression", "quantile", "lambdarank")
LABELS = ("share", "log_tokens")


@dataclass(frozen=True, slots=True)
class TreeConfig:
    """LightGBM. ``regression_l1``, ``regression`` and ``quantile`` (at ``alpha``) learn the
    ``label``: the share of answers that are shorter, or the log of the length; ``lambdarank``
    (Burges 2010) learns the order within lists. On ShareGPT the default is the best or within
    noise of it.

    ``least_rows`` of a leaf are at most a twentieth of all. ``most_rows`` bounds the rows that
    trees are grown on, drawn at random: the linear stage has read them all, and trees of this
    size stop to gain long before.
    """

    objective: str = "regression_l1"
    label: str = "share"
    alpha: float = 0.5
    most_rows: int = 200_000
    rounds: int = 300
    learning_rate: float = 0.03
    leaves: int = 31
    least_rows: int = 50
    column_share: float = 0.6
    row_share: float = 0.7
    l2: float = 1.0
    threads: int = 1

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"trees.objective must be one of {', '.join(OBJECTIVES)}")
        if self.label not in LABELS:
            raise ValueError(f"trees.label must be one of {', '.join(LABELS)}")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("trees.alpha must lie inside (0, 1)")
        smallest = {"rounds": 1, "leaves": 2, "least_rows": 1, "threads": 1, "most_rows": 100}
        for name, least in smallest.items():
            if getattr(self, name) < least:
                raise ValueError(f"trees.{name} must be at least {least}")
        for name in ("learning_rate", "column_share", "row_share"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"trees.{name} must lie in (0, 1]")
        if not self.l2 >= 0.0:
            raise ValueError("trees.l2 must be at least 0")


@dataclass(frozen=True, slots=True)
class LexicalConfig:
    """``ridge`` is the penalty of the linear stage and ``relevance`` how much less of it falls on
    words that tell more (:func:`training.ridge.relevance`; 0: none the less), ``folds`` how its
    out-of-fold predictions for the trees are made, ``seed`` the source of all chance.

    ``auxiliary_weight`` is the weight of a row of another model's answers, where such rows are
    given: what one chat model answers at length, another often does too.
    """

    ngrams: NgramConfig = field(default_factory=NgramConfig)
    window: Window = field(default_factory=Window)
    ridge: float = 1.0
    relevance: float = 1.0
    folds: int = 5
    trees: TreeConfig = field(default_factory=TreeConfig)
    lists: ListConfig = field(default_factory=ListConfig)
    auxiliary_weight: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.ridge > 0.0:
            raise ValueError(f"lexical.ridge must be positive, got {self.ridge}")
        if not self.relevance >= 0.0:
            raise ValueError(f"lexical.relevance must be at least 0, got {self.relevance}")
        if self.folds < 2:
            raise ValueError(f"lexical.folds must be at least 2, got {self.folds}")
        if not 0.0 <= self.auxiliary_weight <= 1.0:
            raise ValueError("lexical.auxiliary_weight must lie between 0 and 1")
        if self.seed < 0:
            raise ValueError("lexical.seed must be at least 0")

    def params(self) -> dict[str, object]:
        """Flat, for a run record: ``trees.rounds`` and so on."""
        return flat(self)
