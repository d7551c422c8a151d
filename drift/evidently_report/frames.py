"""Outcomes as evidently takes them: a table of numbers, without ids, names or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drift.features import Columns
from drift.meaning import Meaning
from drift.shift import BINS
from ranker.types import Outcome

#: Columns whose distributions are compared.
COLUMNS = ("score", "output_tokens", "prompt_tokens")
#: Columns that other metrics read: whether a length is a lower bound, and whether it stayed within
#: the forecast's median and 90th percentile (nothing where that isn't known).
CENSORED, WITHIN_P50, WITHIN_P90 = "censored", "within_p50", "within_p90"


def axes_of(reference: Sequence[Outcome], current: Sequence[Outcome]) -> int:
    """How many numbers of an embedding forecasts carry; 0 when there are too few to compare."""
    meaning = Meaning.of(Columns.of(reference).sketches)
    axes = len(meaning.axes) if meaning is not None else 0
    return axes if len(Columns.of(current).sketches.get(axes, ())) >= BINS else 0


def embedding_columns(axes: int) -> list[str]:
    """Columns of the numbers of an embedding, NaN where an outcome has none."""
    return [f"embedding_{axis}" for axis in range(1, axes + 1)]


def dataset(outcomes: Sequence[Outcome], name: str, axes: int = 0) -> Any:
    """The scored ones of ``outcomes`` as an evidently ``Dataset``, with ``axes`` columns of their
    embeddings.

    Raises ``ValueError``, naming the cohort by ``name``, when there are fewer than two.
    """
    rows = [_row(o, axes) for o in outcomes if o.forecast is not None]
    if len(rows) < 2:
        raise ValueError(
            f"evidently compares scored outcomes; the {name} cohort needs at least 2 of them, "
            f"has {len(rows)}"
        )
    import pandas as pd
    from evidently import DataDefinition, Dataset

    numbers = [*COLUMNS, CENSORED, WITHIN_P50, WITHIN_P90, *embedding_columns(axes)]
    return Dataset.from_pandas(
        pd.DataFrame(rows, columns=numbers, dtype="float64"),
        data_definition=DataDefinition(numerical_columns=numbers),
    )


def _row(o: Outcome, axes: int) -> tuple[float, ...]:
    assert o.forecast is not None
    sketch = o.forecast.sketch if len(o.forecast.sketch) == axes else (float("nan"),) * axes
    return (
        o.forecast.score,
        o.output_tokens,
        o.prompt_tokens,
        o.finish_reason.censored,
        _within(o, 0.5),
        _within(o, 0.9),
        *sketch,
    )


def _within(o: Outcome, level: float) -> float:
    assert o.forecast is not None
    bound = o.forecast.quantile(level)
    if o.output_tokens > bound:
        return 0.0
    # A length cut off below its quantile might have passed it.
    return float("nan") if o.finish_reason.censored else 1.0
