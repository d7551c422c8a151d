"""Realised lengths of the outcome store, joined with the prompts that it does not keep.

The store is the file that ``shortfirst engine`` and the rank service write (format 1, SQLite). It
holds no prompt text on purpose, so the prompts come from whoever may keep them, by request id: the
operator's own log, or the rank service's store of prompts where retention is on.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ranker.types import FinishReason, Outcome
from training.sources import cells, rows
from training.sources.assemble import EVERY_MODEL, assembled, split_by_hash
from training.sources.chat import conversation_of, opening, ranked_text
from training.sources.duplicates import Ids
from training.sources.example import Data, Example, Origin
from training.sources.retained import SUFFIXES, read_retained
from training.sources.stored import opened
from training.split import RESERVED

_FORMAT = 1
_QUERY = """
SELECT request_id, served_model, output_tokens, finish_reason, arrival, finished, prompt_tokens,
  tenant, lane
FROM outcomes WHERE :model IS NULL OR served_model = :model ORDER BY {order}
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asked: ``prompt``, in ``conversation``, whose split ``split`` is."""

    prompt: str = field(repr=False)
    conversation: str
    split: str


def read_outcomes(store: Path, prompts: Path, served_model: str | None = None) -> Data:
    """Examples of the outcomes in ``store`` whose prompts are in ``prompts``.

    ``prompts`` is Parquet, JSON lines or CSV with ``request_id`` and ``prompt``, or ``messages`` as
    the API has them, and optionally ``conversation``, or a store of retained prompts
    (:mod:`training.sources.retained`). The stores are only read, also while others write to them.
    Outcomes without a prompt, and prompts without an outcome, are counted in
    ``Data.skipped``. Raises ``ValueError`` when a file is not what it should be, a request id comes
    twice in ``prompts``, or nothing joins.
    """
    store = Path(store)
    wanted = None if served_model == EVERY_MODEL else served_model
    found, skipped = joined(outcomes(store, wanted), read_prompts(Path(prompts), wanted))
    return assembled(
        store.stem,
        store.absolute().as_uri(),
        found,
        where=f"{store}",
        served_model=served_model,
        skipped=skipped,
    )


def joined(
    reported: Iterable[Outcome], asked: Mapping[str, Asked]
) -> tuple[list[Example], dict[str, int]]:
    """Examples of outcomes by request id, and how many stay alone on either side, by reason."""
    skipped: Counter[str] = Counter()
    found, answered = [], set()
    for outcome in reported:
        request = asked.get(outcome.request_id)
        if request is None:
            skipped["outcomes whose request id has no prompt"] += 1
            continue
        answered.add(outcome.request_id)
        if request.split != RESERVED:
            found.append(example(outcome, request, request.split))
    if alone := len(asked) - len(answered):
        skipped["prompts whose request id has no outcome"] = alone
    return found, dict(skipped)


def example(outcome: Outcome, request: Asked, split: str) -> Example:
    """What ``outcome`` and the prompt of the same request tell together."""
    return Example(
        request.prompt,
        outcome.output_tokens,
        outcome.finish_reason,
        outcome.served_model,
        id=outcome.request_id,
        split=split,
        prompt_tokens=outcome.prompt_tokens,
        conversation=request.conversation,
        origin=Origin(outcome.arrival, outcome.tenant, outcome.lane),
    )


def outcomes(
    store: Path, served_model: str | None = None, *, newest_first: bool = False
) -> Iterator[Outcome]:
    """What the store holds, without forecasts: in the order of report, or the newest by arrival
    first. Raises ``ValueError``."""
    query = _QUERY.format(order="arrival DESC, seq DESC" if newest_first else "seq")
    with _opened(store) as db:
        for request_id, model, tokens, reason, arrival, finished, asked, tenant, lane in db.execute(
            query, {"model": served_model}
        ):
            yield Outcome(
                request_id,
                model,
                tokens,
                FinishReason(reason),
                arrival,
                finished,
                asked,
                tenant=tenant,
                lane=lane,
            )


def served_models(store: Path) -> dict[str, int]:
    """Outcomes by served model, most first. Raises ``ValueError``."""
    with _opened(store) as db:
        return dict(
            db.execute("SELECT served_model, count(*) FROM outcomes GROUP BY 1 ORDER BY 2 DESC, 1")
        )


@contextmanager
def _opened(store: Path) -> Iterator[sqlite3.Connection]:
    if not store.is_file():
        raise ValueError(f"{store}: no such file")
    with opened(store, "outcomes", _FORMAT) as db:
        yield db


def read_prompts(path: Path, served_model: str | None = None) -> dict[str, Asked]:
    """Prompts by request id, of a table, or of a store of retained ones (then of ``served_model``
    alone, where one is named). Raises ``ValueError`` naming the row."""
    if path.suffix.lower() in SUFFIXES:
        kept = read_retained(path, served_model)
        return {name: _retained(text) for name, text in kept.items() if not _blank(text)}
    ids, found = Ids(), {}
    for where, row in rows.read(path, ("request_id", "prompt", "messages", "conversation")):
        request_id = row.get("request_id")
        if cells.missing(request_id):
            raise ValueError(f"{where}: column request_id is missing or empty")
        ids.add(where, "request_id", str(request_id))
        found[str(request_id)] = _asked(where, row)
    return found


def _retained(text: str) -> Asked:
    """Which conversation a prompt is of is not kept: it stands for itself."""
    return Asked(text, conversation_of(text), split_by_hash(text))


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _asked(where: str, row: Mapping[str, object]) -> Asked:
    named = row.get("conversation")
    if row.get("messages") is None:
        prompt = cells.text(where, "prompt", row.get("prompt"))
        start = prompt
    else:
        prompt = cells.text(where, "messages", ranked_text(row["messages"]))
        start = opening(row["messages"]) or prompt
    conversation = "" if cells.missing(named) else str(named)
    return Asked(prompt, conversation or conversation_of(start), split_by_hash(start, conversation))
