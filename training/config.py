"""How a ranker is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ranker.calibration import CalibrationConfig
from ranker.novelty import NoveltyConfig
from training import settings
from training.encoder.config import EncoderConfig
from training.lexical_config import LexicalConfig
from training.probe.config import ProbeConfig

LEXICAL, ENCODER, BLEND, PROBE = "lexical", "encoder", "blend", "probe"
TIERS = (LEXICAL, ENCODER, BLEND, PROBE)


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """``tier`` ``lexical`` trains in seconds and answers in well under a millisecond; ``encoder``
    fine-tunes a transformer; ``blend`` trains both and listens to each as much as it deserves;
    ``probe`` reads the state of the served model itself, or of another decoder."""

    tier: str = LEXICAL
    lexical: LexicalConfig = field(default_factory=LexicalConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    novelty: NoveltyConfig = field(default_factory=NoveltyConfig)

    def __post_init__(self) -> None:
        if self.tier not in TIERS:
            raise ValueError(f"train.tier must be one of {', '.join(TIERS)}, got {self.tier!r}")

    @property
    def seed(self) -> int:
        """What chance outside the tiers starts from: the bootstrap, the samples of a report."""
        return self.lexical.seed

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """From nested tables, as TOML gives them. An unknown key, or a value of another kind,
        raises ``ValueError``."""
        config: TrainConfig = settings.build(cls, "train", values)
        return config

    def params(self) -> dict[str, object]:
        """Flat, for a run record, and only of the tiers that are trained."""
        parts: dict[str, Mapping[str, object]] = {
            LEXICAL: self.lexical.params(),
            ENCODER: self.encoder.params(),
            PROBE: self.probe.params(),
        }
        tiers = (LEXICAL, ENCODER) if self.tier == BLEND else (self.tier,)
        kept = {tier: parts[tier] for tier in tiers}
        flat = {f"{name}.{k}": v for name, params in kept.items() for k, v in params.items()}
        for name in ("calibration", "novelty"):
            flat |= {f"{name}.{k}": v for k, v in settings.flat(getattr(self, name)).items()}
        return {"tier": self.tier, **flat}
