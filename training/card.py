"""The model card that travels with a ranker: data, numbers, limits, licence, how to load it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ranker.length_ranker import LengthRanker
from training.evaluate import Flatness, Row
from training.slices import SliceRow
from training.sources import Data

_KINDS = {
    "lexical": "hashed word n-grams and text features into a linear model and boosted trees",
    "encoder": "a transformer encoder, fine-tuned end to end",
    "probe": "the state of a decoder after the prompt, and a ridge regression on that",
    "blend": "a blend of a lexical model and a fine-tuned transformer encoder",
}
_OURS = ("apache-2.0", "Apache-2.0, as shortfirst.")
_LICENCES = {
    "probe": (
        "other",
        "The files hold the weights of the decoder that it reads with, under the licence of that "
        "model (the bundled SmolLM2: Apache-2.0); the rest is Apache-2.0, as shortfirst.",
    )
}
_RANKERS = (
    "ranker", "tau-b", "95% interval", "pair accuracy", "at or below p50", "at or below p90"
)  # fmt: skip


def card(
    ranker: LengthRanker,
    data: Data,
    rows: Sequence[Row],
    slices: Sequence[SliceRow],
    flat: Flatness,
    day: str,
) -> str:
    """Markdown. ``rows`` and ``slices`` were measured on the test split of ``data``; ``day`` is an
    ISO date."""
    counts = {split: len(data.split(split)) for split in ("train", "validation", "test")}
    measured = _table(
        _RANKERS,
        [
            (
                r.ranker,
                _number(r.tau),
                _interval(r.low, r.high),
                *map(_number, (r.accuracy, r.p50, r.p90)),
            )
            for r in rows
        ],
    )
    parts = _table(
        ("slice", "rows", "tau-b", "95% interval"),
        [(s.name, f"{s.rows:,}", _number(s.tau), _interval(s.low, s.high)) for s in slices],
    )
    licence, terms = _LICENCES.get(ranker.model.kind, _OURS)
    return f"""---
tags: [output-length, learning-to-rank, llm-scheduling]
library_name: shortfirst
license: {licence}
---
# {ranker.name}

Forecasts the relative output length of `{ranker.served_model}` from the prompt: a score (higher =
longer) and quantiles of output tokens. Made of {_KINDS.get(ranker.model.kind, ranker.model.kind)};
quantiles calibrated on validation rows. Trained {day} by shortfirst.

## Data
{data.name} ({data.source}): {counts["train"]:,} rows trained, {counts["validation"]:,} calibrated,
{counts["test"]:,} tested. No training prompt is in the other two.

## Measured on the test rows
{measured}

Spread: {flat}.

## Slices of the test rows
{parts}

## Limits
- It belongs to `{ranker.served_model}`: another model, system prompt, sampling setting or kind of
  traffic has other lengths. Watch it with `shortfirst drift`.
- It reads the beginning and the end of a prompt, not the conversation before it.
- Scores compare within one version only; between versions compare quantiles.

## Licence
{terms} The data have a licence of their own; none of their text is in the files,
which hold weights only.

## Use
    shortfirst serve --ranker models:/{ranker.name}@champion
    mlflow models serve -m models:/{ranker.name}@champion --env-manager local
    Registry(tracking_uri, artifact_root).load("models:/{ranker.name}@champion")  # ranker.registry
"""


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None has rows enough."
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"{low:.3f} to {high:.3f}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
