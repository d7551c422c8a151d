"""The whole way from data to a served ranker, in one call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ranker.length_ranker import LengthRanker
from training import honesty, smollm2, unfinished
from training.card import card
from training.config import LEXICAL, TrainConfig
from training.encoder.watch import Step
from training.enough import enough, enough_to_judge
from training.evaluate import Flatness, Row, flatness, judged
from training.expect import Bound, Miss, missed
from training.fit import TrainedRanker, train
from training.forecasts import Forecaster, forecasts_of
from training.gate import (
    CHAMPION,
    SEEN_FILE,
    Promotion,
    Verdict,
    judge,
    promote_if_passed,
    seen,
)
from training.plots import plots
from training.provenance import provenance
from training.sharegpt import SERVED_MODEL, ShareGpt
from training.slices import by_slice
from training.sources import Data, Example, Progress, apart, refuse_unorderable, silent
from training.tracking import metrics, record

if TYPE_CHECKING:
    from ranker.registry import Registry

#: Served models whose lengths are bundled.
BUNDLED = (SERVED_MODEL, smollm2.SERVED_MODEL)


@dataclass(frozen=True, slots=True)
class Job:
    """What to train: on ``data`` (and, with less weight, ``auxiliary``) for ``served_model``.

    Of ``auxiliary`` remain training rows that share no prompt and no conversation with held-out
    rows of ``data``. ``name`` is what it is registered under. Raises ``ValueError`` for one that no
    registry takes.
    """

    data: Data
    served_model: str
    name: str
    auxiliary: tuple[Data, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set("/:@"):
            raise ValueError(f"name: {self.name!r} is not usable; leave out /, : and @")
        helping = tuple(apart(extra, self.data.examples) for extra in self.auxiliary)
        object.__setattr__(self, "auxiliary", helping)

    @property
    def helpers(self) -> list[Example]:
        """The rows of ``auxiliary``."""
        return [e for extra in self.auxiliary for e in extra.examples]


@dataclass(frozen=True)
class Result:
    """``ranker`` as registered, ``tables`` by split (``validation``, ``test``), ``promotion`` when
    it became one, ``verdict`` of the gate when it was asked, ``misses`` when it was not, because
    metrics fell short of what was expected. Rows of a table: the ranker, prompt length, random
    order of arrival."""

    run_id: str
    name: str
    version: str
    ranker: LengthRanker
    trained: TrainedRanker
    tables: Mapping[str, Sequence[Row]]
    flatness: Flatness
    data: Data
    promotion: Promotion | None = None
    verdict: Verdict | None = None
    misses: tuple[Miss, ...] = ()


def ranker_name(served_model: str) -> str:
    """Registered name of the ranker of a served model; ``org/model`` becomes ``org-model``."""
    if served_model == SERVED_MODEL:
        return "length-ranker"
    return "length-ranker-" + re.sub(r"[/:@]+", "-", served_model)


def job(sharegpt: ShareGpt, served_model: str = SERVED_MODEL) -> Job:
    """The job for a bundled source: ``sharegpt``, or the bundled model's own lengths.

    The latter are half chance, so that what words mean is learnt from ShareGPT answers and from the
    other sampling setting as well: on validation that lifts the tau of words alone from .35 to .37.
    """
    if served_model == SERVED_MODEL:
        later = sharegpt.auxiliary()
        helpers = (later,) if later.examples else ()
        return Job(sharegpt.data(), served_model, ranker_name(served_model), helpers)
    if served_model == smollm2.SERVED_MODEL:
        return Job(
            smollm2.load(sharegpt, smollm2.CALM),
            served_model,
            ranker_name(served_model),
            (smollm2.load(sharegpt, smollm2.LIVELY), sharegpt.data()),
        )
    raise ValueError(
        f"served model {served_model!r}: no bundled lengths; give some with --data, or take "
        f"{SERVED_MODEL} or {smollm2.SERVED_MODEL}"
    )


def run(
    job: Job,
    config: TrainConfig,
    registry: Registry,
    progress: Progress = silent,
    *,
    by: str,
    now: datetime,
    promote_as: str | None = CHAMPION,
    force: bool = False,
    expected: Mapping[str, Bound] | None = None,
    tags: Mapping[str, str] | None = None,
    workdir: Path | None = None,
) -> Result:
    """Train, evaluate, log, register and, unless ``promote_as`` is ``None``, promote.

    The run is in the registry from the start, so that one that fails leaves what it reached. A
    version that misses a metric of ``expected``, or that the gate refuses, is registered and not
    promoted; the result says so. ``workdir`` is where an encoder keeps its checkpoint, to go on
    from, in the same run, when the same call is made again. ``force`` is about the gate alone.
    ``by`` and ``now`` go into the record. Raises ``ValueError`` when there are too few rows, or no
    order of lengths in them.
    """
    # Said before the minutes of training, not after.
    test = enough_to_judge(job.data.examples, job.data.name)
    refuse_unorderable(job.data)
    enough(job.data.examples, job.data.name)
    about = record(
        job.name,
        job.served_model,
        job.data,
        job.auxiliary,
        config,
        {"by": by, **provenance(), **(tags or {})},
    )
    with registry.start(about, unfinished.run_id(workdir, about)) as log:
        unfinished.keep(workdir, about, log.run_id)

        def watch(step: Step) -> None:
            for loss, value in {"loss": step.loss, **step.losses}.items():
                log.step(f"encoder.{loss}", value, step.step)
            if step.tau is not None:
                log.step("encoder.validation_tau", step.tau, step.step)

        trained = train(
            job.data.examples,
            config,
            served_model=job.served_model,
            name=job.name,
            auxiliary=job.helpers,
            workdir=workdir,
            progress=progress,
            watch=watch,
        )
        for step, value in enumerate(trained.curves.get(LEXICAL, ())):
            log.step("lexical.loss", value, step)
        log.metrics(trained.metrics)
        progress("Evaluating", 0, 2)
        rankers: dict[str, Forecaster] = {
            job.name: trained.ranker,
            trained.baseline.name: trained.baseline,
        }
        held = {"validation": job.data.split("validation"), "test": test}
        told = {
            split: {name: forecasts_of(ranker, rows) for name, ranker in rankers.items()}
            for split, rows in held.items()
        }
        tables = {s: judged(told[s], rows, seed=config.seed) for s, rows in held.items()}
        forecasts = told["test"][job.name]
        flat = flatness(forecasts, test)
        parts = by_slice(forecasts, test, seed=config.seed)
        told_of = len(test) >= honesty.LEAST_ROWS
        honest = honesty.honesty(forecasts, test, seed=config.seed) if told_of else None
        found = metrics(job.name, tables, parts, flat, honest)
        misses = missed(expected or {}, {**trained.metrics, **found})
        log.metrics(found)
        progress("Evaluating", 2, 2)
        progress("Registering", 0, 2)
        for name, image in plots(forecasts, test).items():
            log.file(f"plots/{name}.png", image)
        log.file(SEEN_FILE, seen([*job.data.examples, *job.helpers]))
        log.model(
            trained.ranker,
            card(trained.ranker, job.data, tables["test"], parts, flat, f"{now:%Y-%m-%d}"),
        )
        log.tags({"expected_metrics": "missed" if misses else "met" if expected else "none"})
    progress("Registering", 1, 2)
    version = registry.register(log.run_id, job.name, {"served_model": job.served_model})
    moved, verdict = None, None
    if promote_as is not None and not misses:
        verdict = judge(registry, job.name, version, job.data, alias=promote_as)
        moved = promote_if_passed(registry, verdict, by=by, now=now, force=force)
    progress("Registering", 2, 2)
    return Result(
        log.run_id,
        job.name,
        version,
        trained.ranker.at_version(job.name, version),
        trained,
        tables,
        flat,
        job.data,
        moved,
        verdict,
        misses,
    )
