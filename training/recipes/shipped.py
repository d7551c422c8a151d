"""What recipes gave where the project trained them: so that nobody has to wait hours for a table.

    python -m training.recipes.shipped CACHE

takes what ``shortfirst evaluate --recipes`` kept in the folder CACHE (``$SHORTFIRST_HOME/cache/
recipes``) over into the package: numbers only, and published recipes only, since our own rankers
change with the code. A result counts for the rows and settings that it was got with, which its key
tells; anything else is trained anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.label import table
from training.recipes.catalogue import RECIPES
from training.recipes.store import Fitted, Store

NAME = "recipes.parquet"
_HERE = Path(__file__).parents[1] / "data" / NAME


@dataclass(frozen=True)
class Shipped:
    """Results by key; read on demand, since few callers want them."""

    path: Path

    @classmethod
    def of_package(cls) -> Shipped:
        return cls(_HERE)

    def get(self, key: str) -> Fitted | None:
        """What is kept under ``key``; ``None`` when there is nothing."""
        return self._read([("key", "=", key)]).get(key)

    def all(self) -> dict[str, Fitted]:
        """Everything, by key."""
        return self._read()

    def _read(self, filters: list[tuple[str, str, str]] | None = None) -> dict[str, Fitted]:
        import pyarrow.parquet as pq

        if not self.path.is_file():
            return {}
        found: dict[str, Fitted] = {}
        for row in pq.read_table(self.path, filters=filters).to_pylist():
            made = Fitted(row["recipe"], row["minutes"], row["milliseconds"], {})
            of = found.setdefault(row["key"], made)
            of.scores[row["asked"]] = np.array(row["scores"], dtype=np.float64)
        return found


def write(path: Path, results: Mapping[str, Fitted]) -> None:
    """``results`` by key, whole or not at all. Scores are kept in single precision."""
    rows: list[dict[str, Any]] = [
        {
            "key": key,
            "recipe": fitted.recipe,
            "minutes": fitted.minutes,
            "milliseconds": fitted.milliseconds,
            "asked": asked,
            "scores": scores.astype(np.float32).tolist(),
        }
        for key, fitted in sorted(results.items())
        for asked, scores in sorted(fitted.scores.items())
    ]
    table.write(path, rows)


def main(cache: Path, out: Path = _HERE) -> None:
    """Add the results in ``cache`` to those of the package, in place of older ones of a recipe on
    the same rows: says which, since a cache from before keys changed would replace what counts."""
    published = {recipe.name for recipe in RECIPES}
    store = Store(cache)
    results = Shipped(out).all()
    replaced: dict[str, str] = {}
    for path in sorted(cache.glob("*.json")):
        fitted = store.get(path.stem)
        if fitted is None or fitted.recipe not in published:
            continue
        asked = set(fitted.scores)
        old = [
            key
            for key, other in results.items()
            if other.recipe == fitted.recipe and set(other.scores) & asked and key != path.stem
        ]
        for key in old:
            del results[key]
            replaced[key] = path.stem
        results[path.stem] = fitted
    write(out, results)
    for key, fitted in results.items():
        print(json.dumps({"key": key, "recipe": fitted.recipe, "minutes": fitted.minutes}))
    for key, by in replaced.items():
        print(json.dumps({"replaced": key, "by": by}), file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
