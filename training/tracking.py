"""What of a training run goes into its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ranker.records import DatasetRecord, RunRecord
from training.config import TrainConfig
from training.evaluate import Flatness, Row
from training.honesty import Honesty
from training.slices import SliceRow
from training.sources import Data

EXPERIMENT = "shortfirst"
_CONTEXTS = {"train": "training", "validation": "validation", "test": "test"}


def record(
    name: str,
    served_model: str,
    data: Data,
    auxiliary: Sequence[Data],
    config: TrainConfig,
    tags: Mapping[str, str],
) -> RunRecord:
    """What is known before training, as plain values. Of the data only numbers: no prompts."""
    return RunRecord(
        experiment=EXPERIMENT,
        name=f"{name} on {data.name}",
        params=config.params() | {"served_model": served_model},
        tags={"served_model": served_model, "validation_digest": data.digest("validation"), **tags},
        datasets=(
            *(_dataset(data, split, context) for split, context in _CONTEXTS.items()),
            *(_dataset(extra, "train", "auxiliary") for extra in auxiliary),
        ),
    )


def metrics(
    name: str,
    tables: Mapping[str, Sequence[Row]],
    slices: Sequence[SliceRow],
    flat: Flatness,
    honest: Honesty | None,
) -> dict[str, float]:
    """Numbers of the finished run: those of the ranker ``name`` as ``test.tau``, those of others
    as ``test.prompt-length.tau``, those of its test slices as ``test.slice.code.tau``, and, where
    test rows were enough, whether it is honest as ``test.honesty.calibrated`` (0 or 1).
    ``tables`` holds evaluation rows by split name."""
    found: dict[str, float] = {}
    for split, rows in tables.items():
        for row in rows:
            found |= row.metrics(split if row.ranker == name else f"{split}.{row.ranker}")
    for part in slices:
        prefix = f"test.slice.{part.name.replace(' ', '-')}"
        numbers = {"tau": part.tau, "tau_low": part.low, "tau_high": part.high, "rows": part.rows}
        found |= {f"{prefix}.{key}": float(value) for key, value in numbers.items()}
    found |= honest.metrics("test") if honest is not None else {}
    return found | {"test.forecast_spread": flat.share}


def _dataset(data: Data, split: str, context: str) -> DatasetRecord:
    rows = data.split(split)
    return DatasetRecord(
        name=f"{data.name}-{split}",
        context=context,
        source=data.source,
        digest=data.digest(split),
        columns={
            "prompt_characters": [len(e.prompt) for e in rows],
            "output_tokens": [e.output_tokens for e in rows],
            "censored": [int(e.finish_reason.censored) for e in rows],
        },
    )
