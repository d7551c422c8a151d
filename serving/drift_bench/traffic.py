"""Scores real traffic once and keeps the numbers: usual traffic, and what it can turn into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from serving.drift_bench.catalogue import FOREIGN, SLICES, UPDATES, Foreign, Update
from serving.drift_bench.pool import Pool
from training import foreign, pipeline, smollm2
from training.bundled import corpus
from training.config import TrainConfig
from training.fit import train
from training.forecasts import forecasts_of
from training.sources import Data, Example, Progress, silent
from training.traffic import SLICES as KINDS
from training.traffic import shifted

if TYPE_CHECKING:
    from ranker.length_ranker import LengthRanker
    from training.sharegpt import ShareGpt

#: Changes when numbers that were kept would no longer be those that are made.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Shift:
    """What traffic turned into, and what it was: ``usual`` names a pair of pools."""

    name: str
    what: str
    usual: str
    pool: Pool = field(repr=False)


@dataclass(frozen=True, slots=True)
class Usual:
    """One ranker's own traffic: ``reference`` (validation rows) is learned from, ``test`` is
    streamed."""

    name: str
    reference: Pool = field(repr=False)
    test: Pool = field(repr=False)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Everything that streams are made of. ``foreign``: whether the shared data was there."""

    usual: dict[str, Usual]
    shifts: tuple[Shift, ...]
    foreign: bool

    @property
    def chat(self) -> Usual:
        return self.usual[CHAT]


CHAT = "sharegpt"


@dataclass(slots=True)
class Loader:
    """``cache`` keeps scores by what made them; ``ranker`` replaces the quickly trained one."""

    cache: Path
    shared: Path | None = None
    ranker: LengthRanker | None = None
    tokenizer: Path | None = None
    progress: Progress = silent
    _chat: ShareGpt | None = None
    _trained: dict[str, LengthRanker] = field(default_factory=dict)

    def load(self) -> Traffic:
        """Raises ``ValueError`` when a named folder lacks a file."""
        usual = {CHAT: Usual(CHAT, self._of_chat("validation"), self._of_chat("test"))}
        shifts: list[Shift] = []
        if self.shared is not None:
            shifts += [Shift(f.name, f.what, CHAT, self._foreign(self.shared, f)) for f in FOREIGN]
            for update in UPDATES:
                reference, before, after = (
                    self._update(self.shared, update, model, split)
                    for model, split in (
                        (update.before, "validation"),
                        (update.before, "test"),
                        (update.after, "test"),
                    )
                )
                usual[update.name] = Usual(update.name, reference, before)
                shifts.append(Shift(update.name, "the same prompts", update.name, after))
        shifts.append(Shift("smollm2", "same prompts, bundled model", CHAT, self._small()))
        shifts += [Shift(name, KINDS[name].what, CHAT, self._slice(name)) for name in SLICES]
        return Traffic(usual, tuple(shifts), self.shared is not None)

    def _of_chat(self, split: str) -> Pool:
        return self._scored(
            ("chat", split), lambda: self._corpus().data().split(split), self._chat_ranker
        )

    def _small(self) -> Pool:
        return self._scored(("smollm2",), self._small_rows, self._chat_ranker)

    def _small_rows(self) -> list[Example]:
        data = smollm2.load(self._corpus(), smollm2.CALM)
        return [e for e in data.examples if e.split in ("test", "validation")]

    def _slice(self, name: str) -> Pool:
        return self._scored(
            ("slice", name), lambda: shifted(self._corpus(), name), self._chat_ranker
        )

    def _foreign(self, folder: Path, wanted: Foreign) -> Pool:
        return self._scored(
            ("foreign", wanted.name, wanted.file, _stamp(folder / wanted.file)),
            lambda: rows_of(folder / wanted.file, wanted.source, wanted.model),
            self._chat_ranker,
        )

    def _update(self, folder: Path, update: Update, model: str, split: str) -> Pool:
        file = folder / update.file

        def examples() -> list[Example]:
            found = rows_of(file, update.source, model, own_splits=True)
            return [replace(e, model=update.name) for e in found if e.split == split]

        def ranker() -> LengthRanker:
            return self._update_ranker(file, update)

        return self._scored(("update", update.name, model, split, _stamp(file)), examples, ranker)

    def _corpus(self) -> ShareGpt:
        if self._chat is None:
            self._chat = corpus(self.cache, self.tokenizer, self.progress)
        return self._chat

    def _chat_ranker(self) -> LengthRanker:
        if self.ranker is not None:
            return self.ranker
        if CHAT not in self._trained:
            job = pipeline.job(self._corpus())
            self._trained[CHAT] = self._fit(job.data, CHAT, job.helpers)
        return self._trained[CHAT]

    def _update_ranker(self, file: Path, update: Update) -> LengthRanker:
        if update.name not in self._trained:
            rows = rows_of(file, update.source, update.before, own_splits=True)
            data = Data(update.name, file.name, tuple(replace(e, model=update.name) for e in rows))
            self._trained[update.name] = self._fit(data, update.name, ())
        return self._trained[update.name]

    def _fit(self, data: Data, name: str, auxiliary: Sequence[Example]) -> LengthRanker:
        return train(
            data.examples,
            TrainConfig(),
            served_model=name,
            name=name,
            auxiliary=auxiliary,
            progress=self.progress,
        ).ranker

    def _scored(
        self,
        about: tuple[str, ...],
        examples: Callable[[], Sequence[Example]],
        ranker: Callable[[], LengthRanker],
    ) -> Pool:
        own = self.ranker
        who = (own.name, own.version) if own is not None else TrainConfig().params()
        text = json.dumps([_FORMAT, about, who], sort_keys=True, default=str)
        path = self.cache / "drift-bench" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"
        pool = Pool.read(path)
        if pool is None:
            pool = scored(ranker(), examples())
            pool.write(path)
        return pool


def rows_of(file: Path, source: str, model: str = "", *, own_splits: bool = False) -> list[Example]:
    """Rows of every source of ``file`` that begins with ``source``, of models likewise.

    Raises ``ValueError`` when there are none."""
    if not file.is_file():
        raise ValueError(f"{file}: no such file; --shared-data names the folder that holds it")
    found = [
        example
        for name in foreign.sources(file, source)
        for example in foreign.load(file, name, own_splits=own_splits)
        if example.model.startswith(model) and example.output_tokens > 0
    ]
    if not found:
        raise ValueError(f"{file}: no rows of source {source}... and model {model}...")
    return found


def scored(ranker: LengthRanker, examples: Sequence[Example]) -> Pool:
    """What ``ranker`` says of ``examples``, beside what came of them."""
    forecasts = forecasts_of(ranker, examples)
    return Pool(
        np.array([f.score for f in forecasts], np.float64),
        np.array([f.quantiles for f in forecasts], np.float64),
        np.array([e.output_tokens for e in examples], np.int64),
        np.array([e.finish_reason.censored for e in examples], np.bool_),
        np.array([e.prompt_tokens for e in examples], np.int64),
    )


def _stamp(file: Path) -> str:
    if not file.is_file():
        raise ValueError(f"{file}: no such file; --shared-data names the folder that holds it")
    return str(file.stat().st_size)
