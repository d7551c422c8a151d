"""Whether an order of lengths can be learnt from data at all."""

from __future__ import annotations

from training.sources.example import Data, Lengths
from training.split import TRAIN, VALIDATION


def refuse_unorderable(data: Data) -> None:
    """Raises ``ValueError`` naming the split, the column and a row, when the training or the
    validation rows are none, or all censored, or all of one length."""
    for split in (TRAIN, VALIDATION):
        examples = data.split(split)
        if not examples:
            raise ValueError(
                f"{data.name}: column split: no {split} rows among {len(data.examples):,}; give "
                "more prompts, or set the column"
            )
        lengths = Lengths.of(examples)
        some = f"all {len(examples):,} {split} rows (row {examples[0].id} is the first)"
        if lengths.censored.all():
            raise ValueError(
                f"{data.name}: column finish_reason: {some} were cut off; of two bounds none is "
                "known to be the longer, so give answers that ended by themselves"
            )
        if (lengths.tokens == lengths.tokens[0]).all():
            raise ValueError(
                f"{data.name}: column output_tokens is {examples[0].output_tokens} in {some}; "
                "there is no order to learn"
            )
