"""What MLflow's generic loader calls, so that ``mlflow models serve`` works. No mlflow import."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ranker import artifact
from ranker.length_ranker import LengthRanker

#: Logged with every ranker to show what goes in and out; written for this, nobody's prompt.
EXAMPLE_PROMPT = "Explain in two sentences why the sky is blue."

#: Parameters that ``predict`` takes beside the table, with their defaults.
PARAMS = {"served_model": ""}


class PyFunc:
    """``predict`` over a table with a column ``prompt``."""

    def __init__(self, ranker: LengthRanker) -> None:
        self.ranker = ranker

    def predict(self, table: Any, params: dict[str, Any] | None = None) -> Any:
        """One row per prompt: ``score``, the quantiles ``p05`` to ``p99``, ``novelty``, ``pooled``.

        ``params["served_model"]`` asks about another model than the ranker's own; ``pooled`` says
        that the ranker does not know that one, and forecasts what holds for all of its models.
        Raises ``ValueError`` naming the first row whose prompt is no text.
        """
        import pandas as pd

        served = (params or {}).get("served_model") or self.ranker.served_model
        prompts = list(table["prompt"])
        for row, prompt in enumerate(prompts):
            if not isinstance(prompt, str):
                raise ValueError(f"prompt: row {row} holds no text")
        found = self.ranker.forecast(prompts, served)
        return pd.DataFrame(
            [
                {"score": f.score}
                | {f"p{round(p * 100):02d}": q for p, q in zip(f.levels, f.quantiles, strict=True)}
                | {"novelty": f.novelty, "pooled": not self.ranker.knows(served)}
                for f in found
            ]
        )


def requirement() -> str:
    """What whoever loads a ranker this way has to install."""
    try:
        return f"shortfirst[train]=={version('shortfirst')}"
    except PackageNotFoundError:
        return "shortfirst[train]"


def _load_pyfunc(path: str) -> PyFunc:
    return PyFunc(artifact.load(Path(path)))
