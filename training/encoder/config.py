"""How an encoder is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from training.settings import flat

#: Which head each loss teaches. Ranking losses share the plain score.
HEAD_OF: Mapping[str, str] = {
    "ranknet": "linear",
    "margin": "linear",
    "listnet": "linear",
    "listmle": "linear",
    "lambdaloss": "linear",
    "ordinal": "ordinal",
    "quantile": "quantiles",
    "log_t": "log_t",
}
SCORE_HEADS = ("linear", "ordinal", "log_t")
PRECISIONS = ("auto", "bf16", "fp32")


@dataclass(frozen=True, slots=True)
class LossWeights:
    """What the losses of :mod:`ranker.losses` count for in the sum; 0 leaves one out."""

    ranknet: float = 0.0
    margin: float = 0.0
    listnet: float = 0.0
    listmle: float = 0.0
    lambdaloss: float = 0.0
    ordinal: float = 0.0
    quantile: float = 0.0
    log_t: float = 0.0

    def __post_init__(self) -> None:
        for name, weight in asdict(self).items():
            if not 0.0 <= weight < float("inf"):
                raise ValueError(f"losses.{name} must be at least 0, got {weight}")
        if not self.active:
            raise ValueError("losses: at least one must have a positive weight")

    @property
    def active(self) -> dict[str, float]:
        """The losses that take part, with their weights."""
        return {name: weight for name, weight in asdict(self).items() if weight > 0.0}

    @property
    def heads(self) -> set[str]:
        """The heads that are taught."""
        return {HEAD_OF[name] for name in self.active}


def _mixed() -> LossWeights:
    return LossWeights(ranknet=1.0, ordinal=1.0, quantile=0.3)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """``backbone`` is a directory or hub id of a Hugging Face encoder; empty, the bundled MiniLM.

    Text: ``length`` tokens a prompt, ``head_share`` of a longer one from its beginning.

    Loss: the weighted sum of ``losses``; ``thresholds`` cuts of the ordinal one; ``list_width``
    rounds lengths down before ListMLE orders them. ``score_head`` says which head orders prompts.

    Optimiser: AdamW with ``learning_rate`` in the encoder and ``head_learning_rate`` in the heads,
    ``weight_decay`` on matrices, gradients clipped to norm ``clip``; the rates rise over the share
    ``warm_up`` of all steps and fall linearly to 0. ``batch`` prompts a step, compared with each
    other, whatever the number of processes. ``dropout`` stands before the heads. The table of word
    vectors, half of a small encoder, is left alone unless ``train_words``.

    Rows: ``auxiliary_weight`` is that of another model's answers. ``unknown_share`` of the rows of
    a ranker for several served models are shown without the model's name.

    Course: at most ``epochs``; tau on validation is taken ``evaluations`` times an epoch, and
    training stops after ``patience`` of them without a better one. A checkpoint is written every
    ``checkpoint_every`` steps. ``threads`` of 0 leaves torch's number. ``precision`` ``auto`` takes
    bfloat16 where the processor has it. ``seed`` is the source of all chance.
    """

    backbone: str = ""
    length: int = 128
    head_share: float = 0.625
    losses: LossWeights = field(default_factory=_mixed)
    thresholds: int = 20
    list_width: float = 0.0
    score_head: str = "ordinal"
    learning_rate: float = 5e-5
    head_learning_rate: float = 2.5e-4
    weight_decay: float = 0.01
    warm_up: float = 0.06
    clip: float = 1.0
    batch: int = 32
    dropout: float = 0.1
    train_words: bool = False
    auxiliary_weight: float = 0.5
    unknown_share: float = 0.1
    epochs: int = 2
    evaluations: int = 2
    patience: int = 3
    checkpoint_every: int = 200
    threads: int = 0
    precision: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("length", 8),
            ("thresholds", 1),
            ("batch", 2),
            ("epochs", 1),
            ("evaluations", 1),
            ("patience", 1),
            ("checkpoint_every", 1),
            ("threads", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"encoder.{name} must be at least {least}")
        for name in ("learning_rate", "head_learning_rate", "clip"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise ValueError(f"encoder.{name} must be positive, got {getattr(self, name)}")
        for name in ("weight_decay", "list_width"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"encoder.{name} must be at least 0, got {getattr(self, name)}")
        for name in ("dropout", "warm_up", "unknown_share"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"encoder.{name} must lie in [0, 1), got {getattr(self, name)}")
        if not 0.0 < self.head_share < 1.0:
            raise ValueError(f"encoder.head_share must lie inside (0, 1), got {self.head_share}")
        if not 0.0 <= self.auxiliary_weight <= 1.0:
            raise ValueError("encoder.auxiliary_weight must lie between 0 and 1")
        if not isinstance(self.train_words, bool):
            raise ValueError("encoder.train_words must be true or false")
        if self.precision not in PRECISIONS:
            raise ValueError(f"encoder.precision must be one of {', '.join(PRECISIONS)}")
        if self.score_head not in SCORE_HEADS:
            raise ValueError(f"encoder.score_head must be one of {', '.join(SCORE_HEADS)}")
        if self.score_head not in self.losses.heads:
            teachers = [name for name, head in HEAD_OF.items() if head == self.score_head]
            raise ValueError(
                f"encoder.score_head {self.score_head!r} is taught by no loss; give one of "
                f"{', '.join(teachers)} a weight in losses"
            )

    def params(self) -> dict[str, object]:
        """Flat, for a run record and for comparison: ``losses.ranknet`` and so on."""
        return flat(self)
