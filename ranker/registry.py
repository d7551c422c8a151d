"""Runs and registered rankers in MLflow. The only module that imports mlflow.

Everything goes through a client with its own address: no global tracking URI, no active run.
"""

from __future__ import annotations

import math
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

# Before the import: mlflow reads them then. No reports to its makers, no bars on standard error.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

import mlflow.artifacts
import mlflow.pyfunc
import pandas as pd
import yaml
from mlflow import MlflowClient
from mlflow.data.code_dataset_source import CodeDatasetSource
from mlflow.data.pandas_dataset import from_pandas
from mlflow.entities import DatasetInput, InputTag, LoggedModelStatus, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import infer_signature
from sqlalchemy.exc import SQLAlchemyError

from ranker import artifact
from ranker.length_ranker import LengthRanker
from ranker.pyfunc import EXAMPLE_PROMPT, PyFunc, requirement
from ranker.quiet import quiet
from ranker.records import DatasetRecord, RunRecord

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_BATCH = 900  # MLflow takes at most 1,000 metrics a call


class RegistryError(ValueError):
    """Something that is asked for is not in the registry; the message says what there is."""


class Registry:
    """Runs, versions and aliases at ``tracking_uri``; artifacts under ``artifact_root``.

    Both may contain blanks and accents. ``artifact_root`` matters for experiments that are made
    here; one that exists keeps its own. Raises :class:`RegistryError` for an address that is none.
    """

    def __init__(self, tracking_uri: str, artifact_root: Path) -> None:
        self.tracking_uri = tracking_uri
        self.artifact_root = Path(artifact_root).absolute()
        if tracking_uri.startswith("sqlite:///"):
            Path(tracking_uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        with quiet():
            try:
                self._client = MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri)
            except MlflowException as error:
                raise RegistryError(f"tracking_uri {tracking_uri!r}: {error.message}") from None
            except SQLAlchemyError as error:  # what the text goes on with is SQL
                why = getattr(error, "orig", None) or type(error).__name__
                raise RegistryError(f"tracking_uri {tracking_uri!r} is unusable: {why}") from None

    # -- runs ---------------------------------------------------------------------------------

    def log_run(self, record: RunRecord, ranker: LengthRanker, card: str) -> str:
        """Store a finished run with its ranker; the id of the run.

        The ranker becomes a model of the generic ``python_function`` kind with signature and
        example, so that other tools can load it. A failure marks the run as failed.
        """
        with quiet():
            experiment = self._experiment(record.experiment)
            run = self._client.create_run(experiment, run_name=record.name)
            run_id: str = run.info.run_id
            status = "FAILED"
            try:
                self._log_numbers(run_id, record)
                self._log_model(experiment, run_id, ranker, card)
                status = "FINISHED"
            finally:
                self._client.set_terminated(run_id, status=status)
        return run_id

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        folder = self.artifact_root / re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        return str(self._client.create_experiment(name, artifact_location=folder.as_uri()))

    def _log_numbers(self, run_id: str, record: RunRecord) -> None:
        now = int(time.time() * 1000)
        metrics = [
            Metric(key, float(value), now, step)
            for key, values in record.curves.items()
            for step, value in enumerate(values)
        ]
        metrics += [
            Metric(key, float(value), now, 0)
            for key, value in record.metrics.items()
            if not math.isnan(value)
        ]
        for start in range(0, len(metrics), _BATCH):
            self._client.log_batch(run_id, metrics=metrics[start : start + _BATCH])
        self._client.log_batch(
            run_id,
            params=[Param(key, str(value)) for key, value in record.params.items()],
            tags=[RunTag(key, value) for key, value in record.tags.items()],
        )
        self._client.log_inputs(run_id, [_dataset(part) for part in record.datasets])

    def _log_model(self, experiment: str, run_id: str, ranker: LengthRanker, card: str) -> None:
        prompts = pd.DataFrame({"prompt": [EXAMPLE_PROMPT]})
        with tempfile.TemporaryDirectory(prefix="shortfirst-") as scratch:
            folder = artifact.save(ranker, Path(scratch) / "ranker", card)
            model = Path(scratch) / "model"
            mlflow.pyfunc.save_model(
                str(model),
                loader_module="ranker.pyfunc",
                data_path=str(folder),
                signature=infer_signature(prompts, PyFunc(ranker).predict(prompts)),
                input_example=prompts,
                pip_requirements=[requirement()],
            )
            logged = self._client.create_logged_model(
                experiment, name="ranker", source_run_id=run_id, model_type="ranker"
            )
            self._client.log_model_artifacts(logged.model_id, str(model))
            self._client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
        self._client.set_tag(run_id, "shortfirst.model_id", logged.model_id)

    # -- versions -----------------------------------------------------------------------------

    def register(self, run_id: str, name: str, tags: Mapping[str, str] | None = None) -> str:
        """Make the ranker of a run the next version of ``name``; that version."""
        with quiet():
            try:
                self._client.create_registered_model(name)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            model_id = self._client.get_run(run_id).data.tags.get("shortfirst.model_id")
            if model_id is None:
                raise RegistryError(f"run {run_id}: holds no ranker")
            # The folder, not models:/<id>: that one mlflow looks up at its global address.
            folder = self._client.get_logged_model(model_id).artifact_location
            made = self._client.create_model_version(
                name, folder, run_id=run_id, model_id=model_id, tags=dict(tags or {})
            )
        return str(made.version)

    def resolve(self, name: str, alias: str) -> str | None:
        """The version that ``alias`` of ``name`` stands for, or ``None``."""
        with quiet():
            try:
                return str(self._client.get_model_version_by_alias(name, alias).version)
            except MlflowException as error:
                if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    return None
                raise

    def versions(self, name: str) -> list[str]:
        """Versions of ``name``, newest first; empty when there is none."""
        with quiet():
            quoted = name.replace("'", "''")
            found = self._client.search_model_versions(f"name = '{quoted}'")
        return sorted((str(v.version) for v in found), key=int, reverse=True)

    def set_alias(self, name: str, alias: str, version: str) -> None:
        """Let ``alias`` of ``name`` stand for ``version`` from now on.

        Raises :class:`RegistryError` when there is no such version or the alias is reserved.
        """
        with quiet():
            try:
                self._client.set_registered_model_alias(name, alias, version)
            except MlflowException as error:
                raise RegistryError(f"{name} version {version}: {error.message}") from None

    def tags(self, name: str) -> dict[str, str]:
        """Tags of the registered name: where the history of promotions stands."""
        with quiet():
            try:
                return dict(self._client.get_registered_model(name).tags)
            except MlflowException as error:
                raise RegistryError(f"{name}: {error.message}") from None

    def set_tag(self, name: str, key: str, value: str) -> None:
        """Set one tag of the registered name."""
        with quiet():
            self._client.set_registered_model_tag(name, key, value)

    def metrics(self, name: str, version: str) -> dict[str, float]:
        """Metrics of the run that made a version."""
        return dict(self._run_of(name, version).data.metrics)

    def run_tags(self, name: str, version: str) -> dict[str, str]:
        """Tags of the run that made a version."""
        return dict(self._run_of(name, version).data.tags)

    def _run_of(self, name: str, version: str) -> Run:
        with quiet():
            try:
                found = self._client.get_model_version(name, version)
                return self._client.get_run(found.run_id or "")
            except MlflowException as error:
                raise RegistryError(f"{name} version {version}: {error.message}") from None

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
            return artifact.load(self._fetch(name, number, Path(scratch)), name, number)

    def _fetch(self, name: str, number: str, scratch: Path) -> Path:
        try:
            where = self._client.get_model_version_download_uri(name, number)
            found = mlflow.artifacts.download_artifacts(
                artifact_uri=where, dst_path=str(scratch), tracking_uri=self.tracking_uri
            )
        except (MlflowException, OSError) as error:
            raise RegistryError(f"models:/{name}/{number}: not found ({error})") from None
        model = Path(found)
        about = yaml.safe_load((model / "MLmodel").read_text(encoding="utf-8"))
        return model / str(about["flavors"]["python_function"]["data"])


def _dataset(part: DatasetRecord) -> DatasetInput:
    # Floats: mlflow warns about integers, which cannot be missing.
    source = CodeDatasetSource(tags={"source": part.source})
    table = pd.DataFrame(dict(part.columns), dtype=float)
    made = from_pandas(table, source=source, name=part.name, digest=part.digest)
    return DatasetInput(
        dataset=made._to_mlflow_entity(), tags=[InputTag("mlflow.data.context", part.context)]
    )
