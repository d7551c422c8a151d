"""Prompts of other traffic than anybody's, to tell one's own from: shipped, made by a model.

``training/data/novelty_prompts.parquet`` was written by SmolLM2-135M-Instruct (Apache-2.0), asked
for the words of a user; :mod:`training.novelty.sample` is how. Its prompts are short and clean and
of many kinds (questions, instructions, sums, choices, code, advice); the small model's taste, not a
sample of any traffic.
"""

from __future__ import annotations

from importlib import resources

PROMPTS = "novelty_prompts.parquet"


def reference_prompts() -> list[str]:
    """In the order of the file. Raises ``FileNotFoundError`` when it was not installed."""
    import pyarrow.parquet as pq

    with resources.as_file(resources.files("training") / "data" / PROMPTS) as path:
        found: list[str] = pq.read_table(path, columns=["prompt"])["prompt"].to_pylist()
    return found
