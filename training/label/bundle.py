"""``python -m training.label.bundle [--more] ENGINE LENGTHS.parquet``: what ``label`` measured of
the bundled model on ENGINE becomes part of the lengths that come with the package.

Rows of that engine are replaced, all others stay; with ``--more`` its rows stay as well, and what
comes (of another ``label --seed``) are further draws. How engines agree is printed: lengths may be
pooled when one engine's draw orders the other's about as well as its own second draw does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from ranker.metrics import Ceiling, ceiling
from training import smollm2
from training.draws import Draws
from training.label import table


def merged(
    bundled: Iterable[Mapping[str, Any]], labels: Iterable[Mapping[str, Any]], engine: str
) -> list[dict[str, Any]]:
    """Rows of other engines in ``bundled`` and all of ``labels``, ids and numbers only.

    Raises ``ValueError`` when the labels are another model's.
    """
    found = [dict(row) for row in bundled if row["engine"] != engine]
    for row in labels:
        if row["model"] != smollm2.SERVED_MODEL:
            raise ValueError(f"model must be {smollm2.SERVED_MODEL}, got {row['model']}")
        found.append({**row, "engine": engine})
    rows = [{name: row[name] for name in smollm2.COLUMNS} for row in found]
    return sorted(rows, key=lambda row: tuple(row.values()))


def more(
    bundled: Iterable[Mapping[str, Any]], labels: Iterable[Mapping[str, Any]], engine: str
) -> list[dict[str, Any]]:
    """``bundled`` with ``labels`` as draws after those that ``engine`` has of a conversation.

    Raises ``ValueError`` when the labels are another model's, or the very draws that are there.
    """
    rows = [dict(row) for row in bundled]
    has: dict[tuple[Any, ...], list[int]] = {}  # lengths of the draws
    for row in rows:
        if row["engine"] == engine:
            has.setdefault(_question(row), []).append(row["output_tokens"])
    old = {question: tuple(tokens) for question, tokens in has.items()}
    come: list[dict[str, Any]] = []
    for label in sorted(labels, key=lambda label: int(label["draw"])):
        drawn = has.setdefault(_question(label), [])
        come.append({**label, "draw": len(drawn)})
        drawn.append(label["output_tokens"])
    again = [row["output_tokens"] in old[_question(row)] for row in come if _question(row) in old]
    if again and all(again):
        raise ValueError("labels: these draws are in the file already; use another label --seed")
    fresh = merged((), come, engine)
    return sorted(rows + fresh, key=lambda row: tuple(row.values()))


def _question(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["conversation_id"], smollm2.Setting.of(row)


def agreements(rows: Iterable[Mapping[str, Any]], *, bounds: bool = True) -> dict[str, Ceiling]:
    """tau-b between each engine's own draws, and between the first draws of each two engines.

    Of the calm setting; ``bounds`` as in :func:`ranker.metrics.ceiling`.
    """
    calm = [row for row in rows if smollm2.Setting.of(row) == smollm2.CALM]
    engines = sorted({row["engine"] for row in calm})
    parts = {engine: [row for row in calm if row["engine"] == engine] for engine in engines}
    for pair in combinations(engines, 2):
        parts[" and ".join(pair)] = [r for r in calm if r["engine"] in pair and r["draw"] == 0]
    draws = {name: Draws.of(smollm2.examples(part)) for name, part in parts.items()}
    return {name: ceiling(d.tokens, d.censored, bounds=bounds) for name, d in draws.items()}


def main(engine: str, labels: Path, *, further: bool = False) -> None:
    import pyarrow.parquet as pq

    join = more if further else merged
    rows = join(smollm2.rows(), pq.read_table(labels).to_pylist(), engine)
    table.write(Path(__file__).parents[1] / "data" / smollm2.LENGTHS, rows)
    print(f"{len(rows):,} rows")
    for bounds in (True, False):
        print(f"Answers that were cut count as {'bounds' if bounds else 'lengths'}:")
        for name, each in agreements(rows, bounds=bounds).items():
            interval = f"{each.low:.3f} to {each.high:.3f}"
            print(f"  {name}: tau-b {each.tau:.3f} ({interval}), {each.prompts:,} prompts")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--more", action="store_true", help="further draws; no row is replaced")
    parser.add_argument("engine")
    parser.add_argument("lengths", type=Path)
    asked = parser.parse_args()
    main(asked.engine, asked.lengths, further=asked.more)
