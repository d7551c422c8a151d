"""The model card that travels with a ranker: data, numbers, limits."""

from __future__ import annotations

from collections.abc import Sequence

from training.evaluate import Flatness, Row
from training.sources import Data


def card(
    name: str, served_model: str, data: Data, rows: Sequence[Row], flat: Flatness, day: str
) -> str:
    """Markdown. ``rows`` were measured on the test split of ``data``; ``day`` is an ISO date."""
    counts = {split: len(data.split(split)) for split in ("train", "validation", "test")}
    table = "\n".join(
        f"| {r.ranker} | {r.tau:.3f} | {r.low:.3f} to {r.high:.3f} | {r.accuracy:.3f} | "
        f"{_share(r.p50)} | {_share(r.p90)} |"
        for r in rows
    )
    return f"""---
tags: [output-length, learning-to-rank, llm-scheduling]
library_name: shortfirst
license: apache-2.0
---
# {name}

Forecasts the relative output length of `{served_model}` from the prompt: a score (higher =
longer) and quantiles of output tokens. Hashed word n-grams and text features into gradient-boosted
trees; quantiles calibrated on validation rows. Trained {day} by shortfirst.

## Data
{data.name} ({data.source}): {counts["train"]:,} rows trained, {counts["validation"]:,} calibrated,
{counts["test"]:,} tested. No training prompt is in the other two.

## Measured on the test rows
| ranker | tau-b | 95% interval | pair accuracy | at or below p50 | at or below p90 |
|---|---|---|---|---|---|
{table}

Spread: {flat}.

## Limits
- It belongs to `{served_model}`: another model, system prompt, sampling setting or kind of traffic
  has other lengths. Watch it with `shortfirst drift`.
- It reads the beginning and the end of a prompt, not the conversation before it.
- Scores compare within one version only; between versions compare quantiles.
- The files hold weights of hashed n-grams, no text of prompts.
"""


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"
