"""``python -m training.label.bundle LENGTHS.parquet``: what ``label`` measured of the bundled model
becomes part of the lengths that come with the package.

The rows that vLLM measured stay; those of an earlier run of ``label`` are replaced. How the two
engines agree is printed: lengths may be pooled when one engine's draw orders the other's about as
well as its own second draw does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ranker.metrics import Ceiling, ceiling
from training import smollm2
from training.draws import Draws
from training.label import table


def merged(
    bundled: Iterable[Mapping[str, Any]], labels: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of other engines in ``bundled`` and all of ``labels``, ids and numbers only.

    Raises ``ValueError`` when the labels are another model's.
    """
    found = [dict(row) for row in bundled if row["engine"] != smollm2.OWN]
    for row in labels:
        if row["model"] != smollm2.SERVED_MODEL:
            raise ValueError(f"model must be {smollm2.SERVED_MODEL}, got {row['model']}")
        found.append({**row, "engine": smollm2.OWN})
    rows = [{name: row[name] for name in smollm2.COLUMNS} for row in found]
    return sorted(rows, key=lambda row: tuple(row.values()))


def between_engines(
    rows: Iterable[Mapping[str, Any]], *, bounds: bool = True
) -> dict[str, Ceiling]:
    """tau-b between an engine's own draws, of each, and ``between`` the first draws of two.

    Of the calm setting; ``bounds`` as in :func:`ranker.metrics.ceiling`.
    """
    calm = [row for row in rows if smollm2.Setting.of(row) == smollm2.CALM]
    parts = {
        engine: [row for row in calm if row["engine"] == engine]
        for engine in sorted({row["engine"] for row in calm})
    }
    parts["between"] = [row for row in calm if row["draw"] == 0]
    draws = {name: Draws.of(smollm2.examples(part)) for name, part in parts.items()}
    return {name: ceiling(d.tokens, d.censored, bounds=bounds) for name, d in draws.items()}


def main(path: Path) -> None:
    import pyarrow.parquet as pq

    rows = merged(smollm2.rows(), pq.read_table(path).to_pylist())
    table.write(Path(__file__).parents[1] / "data" / smollm2.LENGTHS, rows)
    print(f"{len(rows):,} rows")
    for bounds in (True, False):
        for name, each in between_engines(rows, bounds=bounds).items():
            print(
                f"{name}: tau-b {each.tau:.3f} ({each.low:.3f} to {each.high:.3f}), "
                f"{each.prompts:,} prompts, limits as {'bounds' if bounds else 'lengths'}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
