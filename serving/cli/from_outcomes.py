"""``train --from-outcomes`` and ``promote --outcomes``: traffic of our own, from its stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from serving.cli import console, tables, train_report
from serving.cli.registry import open_registry
from serving.cli.training_data import Wanted

if TYPE_CHECKING:
    from ranker.registry import Registry
    from training.configs import Configuration
    from training.pipeline import Result
    from training.retrain import Retraining
    from training.sources import Data
    from training.sources.recent import RecencyConfig, Recent

#: Tags of a run: what the champion of that time was trained with, so that the next can be told.
_FORMER = "former."
#: No run takes so long.
_LEFT_S = 7 * 86_400.0


def stores(store: str, prompts: Path | None) -> tuple[Path, Path]:
    """The outcomes, those of the home folder unless ``store`` says otherwise, and their prompts,
    which are beside them unless ``prompts`` does."""
    from serving.paths import Home, prompts_beside

    outcomes = Path(store) if store else Home.resolve().outcomes
    return outcomes, prompts or prompts_beside(outcomes)


@dataclass(frozen=True, slots=True)
class FromOutcomes:
    """``store`` empty: the home folder's. ``half_life`` ``None``: chosen. ``former``: learn from
    the champion's data too."""

    store: str
    prompts: Path | None
    served_model: str
    name: str
    half_life: float | None
    held_out: int
    reason: str
    former: bool
    challenger: bool
    promote: bool
    force: bool
    tokenizer: Path | None

    def train(self, settings: Configuration, tracking_uri: str, *, as_json: bool) -> bool:
        """Whether the version serves, where it was to; ``True`` where it was not.

        Raises ``ValueError`` that says what is missing.
        """
        from training.gate import CHALLENGER
        from training.sources.recent import RecencyConfig, read_recent

        recency = RecencyConfig(most_held_out=self.held_out)
        if self.half_life is not None:
            recency = replace(recency, half_life=self.half_life)
        recent = read_recent(*stores(self.store, self.prompts), self.served_model, recency)
        console.note(recent.found)
        registry = open_registry(tracking_uri)
        plan, tags = self._plan(recent, recency, registry, settings)
        if plan.tried:
            told = ", ".join(f"{tau:.3f} at {h:,g}" for h, tau in plan.tried.items())
            console.note(
                f"Half-life {plan.lineage.half_life:,g} outcomes (validation tau-b {told})"
            )
        tables.note_leaks(plan.job.data)
        result = _run(plan, settings, registry, {**plan.tags(), **tags})
        if self.challenger:
            registry.set_alias(result.name, CHALLENGER, result.version)
        if self.promote and not self.challenger:
            result = _judged(registry, result, recent, self.force)
        more = {"challenger": self.challenger, "lineage": asdict(plan.lineage)}
        train_report.report([result], as_json=as_json, more=more)
        if self.challenger and not as_json:
            console.note(
                f"models:/{result.name}@{CHALLENGER} is version {result.version}: a rank service "
                f"scores it in the shadow of the champion. When it has seen enough: shortfirst "
                f"promote {result.name} {result.version} --outcomes"
            )
        return result.verdict is None or result.promotion is not None

    def _plan(
        self, recent: Recent, recency: RecencyConfig, registry: Registry, settings: Configuration
    ) -> tuple[Retraining, dict[str, str]]:
        from training.gate import CHAMPION
        from training.pipeline import ranker_name
        from training.retrain import retraining

        name = self.name or ranker_name(recent.served_model)
        champion = registry.resolve(name, CHAMPION)
        tags = registry.run_tags(name, champion) if champion else {}
        wanted = _former(tags, self.tokenizer) if champion else None
        former: tuple[Data, ...] = ()
        said: dict[str, str] = {}
        if wanted is not None:
            said = {_FORMER + key: value for key, value in wanted.tags().items()}
            said[_FORMER + "served_model"] = wanted.served_model
            if self.former:
                former = _rows(wanted)
        with tables.stages() as progress:
            plan = retraining(
                recent,
                recency,
                choose=settings.train.lexical if self.half_life is None else None,
                name=name,
                former=former,
                reason=self.reason,
                progress=progress,
            )
        return plan, said


def _former(tags: Mapping[str, str], tokenizer: Path | None) -> Wanted | None:
    """What a version was trained with before there were outcomes, as far back as runs tell."""
    from training.pipeline import BUNDLED
    from training.sources.lineage import Lineage

    if Lineage.of(tags) is not None:
        tags = {k.removeprefix(_FORMER): v for k, v in tags.items() if k.startswith(_FORMER)}
    wanted = Wanted.of_run(tags, tokenizer)
    return wanted if wanted.data or wanted.served_model in BUNDLED else None


def _rows(wanted: Wanted) -> tuple[Data, ...]:
    """None where they are gone: they help, and are not needed."""
    try:
        with tables.stages() as progress:
            return (wanted.job("", progress).data,)
    except (ValueError, OSError, ImportError) as error:
        console.note(f"Without the data that the champion was trained with: {error}")
        return ()


def _run(
    plan: Retraining, settings: Configuration, registry: Registry, tags: Mapping[str, str]
) -> Result:
    import getpass
    from datetime import UTC, datetime

    from serving.paths import Home
    from training import pipeline
    from training.encoder.watch import Interrupted

    with (
        _workdir(Home.resolve().cache / "training", plan.job.name) as workdir,
        tables.stages() as progress,
    ):
        try:
            result = pipeline.run(
                plan.job,
                settings.train,
                registry,
                progress,
                by=getpass.getuser(),
                now=datetime.now(UTC),
                promote_as=None,
                tags={"config": settings.name, **tags},
                workdir=workdir,
            )
        except Interrupted as stopped:
            raise console.UserError(str(stopped), status=130) from None
    return result


@contextmanager
def _workdir(folder: Path, name: str) -> Iterator[Path]:
    """For this run alone: a service may retrain meanwhile. Gone at the end, for nobody is to go on
    with it: by then there is newer traffic. So are those of runs that were killed long ago."""
    import os
    import shutil
    import tempfile
    import time

    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{name}-outcomes-*"):
        with suppress(OSError):  # another run takes it away, too
            if time.time() - left.stat().st_mtime > _LEFT_S:
                shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=f"{name}-outcomes-{os.getpid()}-", dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _judged(registry: Registry, result: Result, recent: Recent, force: bool) -> Result:
    """With the gate's verdict on recent outcomes, and the promotion where it came to one."""
    import getpass
    from datetime import UTC, datetime

    from training import gate

    verdict = gate.judge_recent(registry, result.name, result.version, recent)
    moved = gate.promote_if_passed(
        registry, verdict, by=getpass.getuser(), now=datetime.now(UTC), force=force
    )
    return replace(result, verdict=verdict, promotion=moved)
