"""What the demo runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from serving.burst.client import Lengths, Sampling
from serving.burst.items import BurstConfig
from serving.burst.session import SessionConfig
from training import smollm2
from training.sharegpt import SERVED_MODEL

#: Answers of the bundled model when it stops by itself: the calmer setting its ranker learned on.
_OWN = Sampling(
    lengths=Lengths.OWN,
    temperature=smollm2.CALM.temperature,
    repetition_penalty=smollm2.CALM.repetition_penalty,
)


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """``foreign``: a Parquet file of other services' traffic, used for the shift when it exists;
    ``foreign_source`` names the rows. ``seed`` decides the burst, the samplers and the order of the
    monitor's traffic."""

    session: SessionConfig = field(default_factory=SessionConfig)
    foreign: Path | None = None
    foreign_source: str = "livecodebench"
    seed: int = 0

    @classmethod
    def of(
        cls,
        *,
        lengths: Lengths,
        requests: int,
        repeats: int,
        seed: int,
        foreign: Path | None = None,
        together: bool = True,
    ) -> DemoConfig:
        sampling = _OWN if lengths is Lengths.OWN else Sampling()
        session = SessionConfig(
            repeats=repeats,
            together=together,
            burst=BurstConfig(requests=requests, seed=seed),
            sampling=replace(sampling, seed=seed + 1),
        )
        return cls(session=session, foreign=foreign, seed=seed)

    @property
    def ranked_as(self) -> str:
        """Whose lengths the burst's forecasts are about."""
        own = self.session.sampling.lengths is Lengths.OWN
        return smollm2.SERVED_MODEL if own else SERVED_MODEL
