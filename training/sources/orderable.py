"""Whether an order of lengths can be learnt from data, and judged by it, at all."""

from __future__ import annotations

from training.sources.example import Data, Lengths
from training.split import SPLITS, TEST


def refuse_unorderable(data: Data) -> None:
    """Raises ``ValueError`` naming the split, the column, a row and what to do, when the training,
    the validation or the test rows are none, or all censored, or no two are known to differ in
    length: nothing could be learnt from them, and tau-b by them would be NaN."""
    for split in SPLITS:
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
        none = f"there is no order to {'judge by' if split == TEST else 'learn'}"
        if (lengths.tokens == lengths.tokens[0]).all():
            raise ValueError(
                f"{data.name}: column output_tokens is {examples[0].output_tokens} in {some}; "
                f"{none}, so give answers of other lengths"
            )
        ended = lengths.tokens[~lengths.censored]
        bounds = lengths.tokens[lengths.censored]
        if (ended == ended[0]).all() and (bounds < ended[0]).all():
            raise ValueError(
                f"{data.name}: columns output_tokens and finish_reason: of {some} those that ended "
                f"have {ended[0]:.0f} tokens and the others were cut off before; {none}, so give "
                "answers of other lengths"
            )
