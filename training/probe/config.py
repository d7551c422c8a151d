"""How a probe is fitted."""

from __future__ import annotations

from dataclasses import dataclass

from training.encoder.config import PRECISIONS
from training.settings import flat


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """``backbone`` is a directory or hub id of a decoder, best the model that is served; empty, the
    bundled one. Its weights stay as they are.

    Text: the prompt in the decoder's chat template; ``length`` tokens of both, ``head_share`` of a
    longer prompt from its beginning.

    ``layer`` after which the state is read; 0 takes the first whose tau on validation is within
    ``slack`` of the best, looked for with ``most_rows`` prompts at the most: a later one costs more
    at every request. ``auxiliary_weight`` is that of another model's answers. ``batch`` prompts are
    read at a time. ``threads`` of 0 leaves torch's number; ``precision`` as in the encoder's.
    ``seed`` draws the prompts that the layer is chosen with.
    """

    backbone: str = ""
    length: int = 256
    head_share: float = 0.625
    layer: int = 0
    slack: float = 0.005
    most_rows: int = 4000
    auxiliary_weight: float = 0.5
    batch: int = 16
    threads: int = 0
    precision: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("length", 8),
            ("layer", 0),
            ("most_rows", 50),
            ("batch", 1),
            ("threads", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise ValueError(
                    f"probe.{name} must be at least {least}, got {getattr(self, name)}"
                )
        if not 0.0 < self.head_share < 1.0:
            raise ValueError(f"probe.head_share must lie inside (0, 1), got {self.head_share}")
        for name in ("slack", "auxiliary_weight"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(
                    f"probe.{name} must lie between 0 and 1, got {getattr(self, name)}"
                )
        if self.precision not in PRECISIONS:
            raise ValueError(f"probe.precision must be one of {', '.join(PRECISIONS)}")

    def params(self) -> dict[str, object]:
        """Flat, for a run record."""
        return flat(self)
