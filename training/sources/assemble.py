"""From the rows that a source found to data: what every source does last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from training.sources.duplicates import deduplicated
from training.sources.example import Data, Example
from training.sources.leaks import refuse_leaks, without_leaks
from training.split import bucket, split_of

#: In place of a served model: rows of all of them.
EVERY_MODEL = "*"
#: Why a row says nothing new.
REPEATED = "logged twice"


def split_by_hash(prompt: str, conversation: str = "") -> str:
    """Split of a row: all turns of a conversation share one. May be ``reserved``."""
    return split_of(bucket(conversation or prompt))


def assembled(
    name: str,
    source: str,
    found: Sequence[Example],
    *,
    where: str,
    served_model: str | None = None,
    split_given: bool = False,
    skipped: Mapping[str, int] | None = None,
) -> Data:
    """Examples without repeats and without leaks. ``split_given``: leaks are an error, not ours to
    drop. Raises ``ValueError``, which begins with ``where``, when there is no example, or several
    models' where one was to be named.
    """
    models = sorted({e.model for e in found})
    if len(models) > 1 and served_model != EVERY_MODEL:
        raise ValueError(
            f"{where}: holds answers of {len(models)} models ({', '.join(models[:5])}); a ranker "
            f"belongs to one, name it with --served-model"
        )
    if not found:
        whose = f" of model {served_model}" if served_model not in (None, EVERY_MODEL) else ""
        why = "".join(f"; {count:,}: {reason}" for reason, count in (skipped or {}).items())
        raise ValueError(f"{where}: no rows{whose}, a fifth of prompts being reserved{why}")
    single = deduplicated(found)
    reasons = dict(skipped or {})
    if repeats := len(found) - len(single):
        reasons[REPEATED] = repeats
    if split_given:
        data = Data(name, source, tuple(single), skipped=reasons)
        refuse_leaks(data)
        return data
    kept = tuple(without_leaks(single))
    return Data(name, source, kept, leaks=len(single) - len(kept), skipped=reasons)
