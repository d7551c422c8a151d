"""Registered rankers: their versions, aliases and tags, and the runs that they come from."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import mlflow.artifacts
import pandas as pd
from mlflow.data.code_dataset_source import CodeDatasetSource
from mlflow.data.pandas_dataset import from_pandas
from mlflow.entities import DatasetInput, InputTag, Param, Run, RunTag
from mlflow.exceptions import MlflowException

from ranker import artifact
from ranker.length_ranker import LengthRanker
from ranker.quiet import quiet
from ranker.records import DatasetRecord, RunRecord
from ranker.registry import flavour
from ranker.registry.connection import RegistryError, connect, explained, is_server
from ranker.registry.run_log import MODEL_ID, NOTE, RunLog

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


class Registry:
    """Runs, versions and aliases at ``tracking_uri``: a SQLite file or a tracking server.

    ``artifact_root`` is where experiments that are made here keep their artifacts; a server
    decides that itself, and an experiment that exists keeps its own. Both may contain blanks and
    accents. Raises :class:`RegistryError` for an address that is none.
    """

    def __init__(self, tracking_uri: str, artifact_root: Path) -> None:
        self.tracking_uri = tracking_uri
        self.artifact_root = Path(artifact_root).absolute()
        self._client = connect(tracking_uri)

    # -- runs ---------------------------------------------------------------------------------

    def start(
        self, record: RunRecord, run_id: str = "", clock: Callable[[], float] = time.time
    ) -> RunLog:
        """Begin a run; enter what it gives. With the ``run_id`` of one that was broken off, go on
        with that, unless this registry does not know it."""
        with explained(f"experiment {record.experiment!r}"):
            experiment = self._experiment(record.experiment)
            if run_id and self._reopened(run_id):
                return RunLog(self._client, experiment, run_id, clock=clock)
            made = self._client.create_run(experiment, run_name=record.name)
            log = RunLog(self._client, experiment, str(made.info.run_id), clock=clock)
            self._client.log_batch(
                log.run_id,
                params=[Param(key, str(value)) for key, value in record.params.items()],
                tags=[RunTag(key, value) for key, value in record.tags.items()],
            )
            self._client.log_inputs(log.run_id, [_dataset(part) for part in record.datasets])
        return log

    def _reopened(self, run_id: str) -> bool:
        try:
            self._client.update_run(run_id, status="RUNNING")
        except MlflowException as error:
            if error.error_code in _ABSENT:
                return False
            raise
        return True

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        where = None
        if not is_server(self.tracking_uri):
            where = (self.artifact_root / re.sub(r"[^A-Za-z0-9._-]+", "-", name)).as_uri()
        return str(self._client.create_experiment(name, artifact_location=where))

    # -- versions -----------------------------------------------------------------------------

    def register(self, run_id: str, name: str, tags: Mapping[str, str] | None = None) -> str:
        """Make the ranker of a run the next version of ``name``; that version.

        The run's card becomes its description.
        """
        with explained(name):
            try:
                self._client.create_registered_model(name)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            run_tags = self._client.get_run(run_id).data.tags
            model_id = run_tags.get(MODEL_ID)
            if model_id is None:
                raise RegistryError(f"run {run_id}: holds no ranker")
            # The folder, not models:/<id>: that one mlflow looks up at its global address.
            folder = self._client.get_logged_model(model_id).artifact_location
            made = self._client.create_model_version(
                name,
                folder,
                run_id=run_id,
                model_id=model_id,
                tags=dict(tags or {}),
                description=run_tags.get(NOTE),
            )
        return str(made.version)

    def resolve(self, name: str, alias: str) -> str | None:
        """The version that ``alias`` of ``name`` stands for, or ``None``."""
        with explained(name):
            try:
                return str(self._client.get_model_version_by_alias(name, alias).version)
            except MlflowException as error:
                if error.error_code in _ABSENT:
                    return None
                raise

    def versions(self, name: str) -> list[str]:
        """Versions of ``name``, newest first; empty when there is none."""
        with explained(name):
            quoted = name.replace("'", "''")
            found = self._client.search_model_versions(f"name = '{quoted}'")
        return sorted((str(v.version) for v in found), key=int, reverse=True)

    def set_alias(self, name: str, alias: str, version: str) -> None:
        """Let ``alias`` of ``name`` stand for ``version`` from now on.

        Raises :class:`RegistryError` when there is no such version or the alias is reserved.
        """
        with explained(f"{name} version {version}"):
            self._client.set_registered_model_alias(name, alias, version)

    def tags(self, name: str) -> dict[str, str]:
        """Tags of the registered name: where the history of promotions stands."""
        with explained(name):
            return dict(self._client.get_registered_model(name).tags)

    def set_tag(self, name: str, key: str, value: str) -> None:
        """Set one tag of the registered name."""
        with explained(name):
            self._client.set_registered_model_tag(name, key, value)

    # -- the run of a version -----------------------------------------------------------------

    def metrics(self, name: str, version: str) -> dict[str, float]:
        """Metrics of the run that made a version."""
        return dict(self._run_of(name, version).data.metrics)

    def run_tags(self, name: str, version: str) -> dict[str, str]:
        """Tags of the run that made a version."""
        return dict(self._run_of(name, version).data.tags)

    def attach(self, name: str, version: str, path: str, value: Mapping[str, object]) -> None:
        """Keep ``value`` as JSON among the artifacts of the run that made a version."""
        run = self._run_of(name, version)
        with explained(f"{name} version {version}: {path}"):
            self._client.log_text(run.info.run_id, json.dumps(value, indent=1), path)

    def attached(self, name: str, version: str, path: str) -> bytes | None:
        """An artifact of the run that made a version; ``None`` when there is none at ``path``."""
        run = self._run_of(name, version)
        with quiet(), tempfile.TemporaryDirectory(prefix="shortfirst-") as scratch:
            try:
                found = self._client.download_artifacts(run.info.run_id, path, scratch)
            except (MlflowException, OSError):
                return None
            return Path(found).read_bytes()

    def _run_of(self, name: str, version: str) -> Run:
        with explained(f"{name} version {version}"):
            found = self._client.get_model_version(name, version)
            return self._client.get_run(found.run_id or "")

    # -- loading ------------------------------------------------------------------------------

    def load(self, uri: str) -> LengthRanker:
        """The ranker at ``models:/name@alias``, ``models:/name/3`` or in a plain folder.

        It carries the name and version that the registry gave it. Raises :class:`RegistryError`
        when there is none, :class:`ranker.artifact.ArtifactError` when it is damaged.
        """
        if not uri.startswith("models:/"):
            return artifact.load(Path(uri))
        match = _URI.fullmatch(uri)
        if match is None:
            raise RegistryError(f"{uri}: must read models:/name@alias or models:/name/3")
        name = match["name"]
        number = match["version"] or self.resolve(name, match["alias"])
        if number is None:
            there = ", ".join(self.versions(name)) or "none"
            raise RegistryError(f"{uri}: no such alias; versions of {name}: {there}")
        with quiet(), tempfile.TemporaryDirectory(prefix="shortfirst-") as scratch:
            return artifact.load(self._fetch(name, number, scratch), name, number)

    def _fetch(self, name: str, number: str, scratch: str) -> Path:
        try:
            where = self._client.get_model_version_download_uri(name, number)
            found = mlflow.artifacts.download_artifacts(
                artifact_uri=where, dst_path=scratch, tracking_uri=self.tracking_uri
            )
        except (MlflowException, OSError) as error:
            raise RegistryError(f"models:/{name}/{number}: not found ({error})") from None
        return flavour.ranker_folder(Path(found))


def _dataset(part: DatasetRecord) -> DatasetInput:
    # Floats: mlflow warns about integers, which cannot be missing.
    source = CodeDatasetSource(tags={"source": part.source})
    table = pd.DataFrame(dict(part.columns), dtype=float)
    made = from_pandas(table, source=source, name=part.name, digest=part.digest)
    return DatasetInput(
        dataset=made._to_mlflow_entity(), tags=[InputTag("mlflow.data.context", part.context)]
    )
