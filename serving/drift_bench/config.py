"""How the benchmark is run."""

from __future__ import annotations

from dataclasses import dataclass, field

from serving.drift_bench.streams import StreamConfig


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """Counts are outcomes unless said otherwise.

    ``replays``: streams per cell. ``arl``: mean outcomes between false alarms that every detector
    is calibrated to; that of the monitor's ``degraded``. ``before``: of usual traffic before each
    change, enough to fill every window. ``after``: following an abrupt change; ``queued_after``:
    the same where an engine has to be simulated. ``stationary``: per stream without change.
    ``mixing``: over which a gradual change takes place. ``tenants``: equal ones, of which one
    changes. ``reference``: least outcomes of a reference with bursts. ``limit``: tokens at which
    answers are cut off, as an engine's limit does.
    """

    replays: int = 200
    arl: float = 100_000.0
    before: int = 600
    after: int = 1500
    queued_after: int = 700
    stationary: int = 2500
    mixing: int = 5000
    tenants: int = 10
    reference: int = 1600
    limit: int = 1024
    seed: int = 20261130
    streams: StreamConfig = field(default_factory=StreamConfig)

    def __post_init__(self) -> None:
        for name in (
            "replays",
            "before",
            "after",
            "queued_after",
            "stationary",
            "mixing",
            "reference",
            "limit",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"benchmark.{name} must be >= 1, got {getattr(self, name)}")
        if self.tenants < 2:
            raise ValueError(f"benchmark.tenants must be >= 2, got {self.tenants}")
        if not self.arl > 1.0:
            raise ValueError(f"benchmark.arl must be above 1, got {self.arl}")
