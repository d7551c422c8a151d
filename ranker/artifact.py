"""A ranker as a folder: safetensors, LightGBM text, JSON and a model card. Never a pickle."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ranker.calibration import Calibration
from ranker.features import FEATURES
from ranker.length_ranker import LengthRanker
from ranker.lexical import LexicalModel
from ranker.ngrams import NgramConfig, NgramWeights
from ranker.window import Window

#: Raised when the meaning of a file changes; another number is refused.
FORMAT = 1
MANIFEST = "ranker.json"
_WEIGHTS, _TREES, _CALIBRATION, _CARD = (
    "ngrams.safetensors",
    "trees.txt",
    "calibration.json",
    "README.md",
)


class ArtifactError(ValueError):
    """A folder that is no ranker, is damaged, or was written by an incompatible version."""


def save(ranker: LengthRanker, folder: Path, card: str = "") -> Path:
    """Write ``ranker`` to ``folder``, replacing it as a whole; ``card`` becomes its README.md.

    Written beside the target and renamed, so a reader sees the old folder, the new one or, between
    two renames, none; never half of one. Raises ``ValueError`` when ``folder`` exists and is not a
    ranker.
    """
    folder = Path(folder)
    if folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir()):
        raise ArtifactError(f"{folder}: not empty and not a ranker; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(ranker, made, card)
        made.chmod(0o755)
        old = folder.with_name(f"{made.name}-old")
        if folder.exists():
            os.replace(folder, old)
        os.replace(made, folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _write(ranker: LengthRanker, folder: Path, card: str) -> None:
    from safetensors.numpy import save_file

    model, calibration = ranker.model, ranker.calibration
    weights = model.weights
    used = np.flatnonzero(weights.idf)  # most buckets are empty
    save_file(
        {
            "buckets": used.astype(np.int32),
            "idf": weights.idf[used].astype(np.float32),
            "coefficients": weights.coefficients[used].astype(np.float32),
        },
        folder / _WEIGHTS,
    )
    (folder / _TREES).write_text(model.trees.model_to_string(), encoding="utf-8")
    _write_json(
        folder / _CALIBRATION,
        {
            "levels": list(calibration.levels),
            "knots": calibration.knots.tolist(),
            "table": calibration.table.tolist(),
            "bandwidth": None if math.isinf(calibration.bandwidth) else calibration.bandwidth,
        },
    )
    (folder / _CARD).write_text(card or f"# {ranker.name}\n", encoding="utf-8")
    _write_json(
        folder / MANIFEST,
        {
            "format": FORMAT,
            "kind": "lexical",
            "name": ranker.name,
            "served_model": ranker.served_model,
            "features": list(FEATURES),
            "window": asdict(model.window),
            "ngrams": asdict(model.ngrams),
            "intercept": weights.intercept,
            "sha256": {name: _digest(folder / name) for name in (_WEIGHTS, _TREES, _CALIBRATION)},
        },
    )


def load(folder: Path, name: str | None = None, version: str | None = None) -> LengthRanker:
    """Read a ranker that :func:`save` wrote.

    ``name`` and ``version`` are those a registry gave it; without them the name in the folder and
    the first digits of its content hash. Raises :class:`ArtifactError` (a ``ValueError``) naming
    the file when one is missing, damaged or of another format.
    """
    folder = Path(folder)
    manifest = _manifest(folder)
    for file, expected in manifest["sha256"].items():
        if not (folder / file).is_file():
            raise ArtifactError(f"{folder / file}: missing; the ranker is incomplete")
        if _digest(folder / file) != expected:
            raise ArtifactError(f"{folder / file}: damaged (its SHA-256 differs from {MANIFEST})")
    from lightgbm import Booster

    model = LexicalModel(
        ngrams=NgramConfig(**manifest["ngrams"]),
        weights=_weights(folder, manifest),
        trees=Booster(model_str=(folder / _TREES).read_text(encoding="utf-8")),
        window=Window(**manifest["window"]),
    )
    return LengthRanker(
        model=model,
        calibration=_calibration(folder),
        served_model=manifest["served_model"],
        name=name or manifest["name"],
        version=version or _digest(folder / MANIFEST)[:12],
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtifactError(f"{folder}: no {MANIFEST} in it, so not a ranker")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or manifest["kind"] != "lexical":
            raise ArtifactError(
                f"{path}: format {manifest['format']} of kind {manifest['kind']}, this version "
                f"reads format {FORMAT} of kind lexical; train the ranker again"
            )
        if tuple(manifest["features"]) != FEATURES:
            raise ArtifactError(f"{path}: made for other text features; train the ranker again")
        names = {"name", "served_model", "window", "ngrams", "intercept", "sha256"}
        if missing := names - manifest.keys():
            raise KeyError(min(missing))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ArtifactError(f"{path}: not readable ({type(error).__name__}: {error})") from None
    if set(manifest["sha256"]) != {_WEIGHTS, _TREES, _CALIBRATION}:
        raise ArtifactError(f"{path}: sha256 must list {_WEIGHTS}, {_TREES} and {_CALIBRATION}")
    return manifest


def _weights(folder: Path, manifest: dict[str, Any]) -> NgramWeights:
    from safetensors.numpy import load_file

    tensors = load_file(folder / _WEIGHTS)
    size = NgramConfig(**manifest["ngrams"]).buckets
    idf, coefficients = np.zeros(size, np.float32), np.zeros(size, np.float32)
    idf[tensors["buckets"]] = tensors["idf"]
    coefficients[tensors["buckets"]] = tensors["coefficients"]
    return NgramWeights(idf, coefficients, float(manifest["intercept"]))


def _calibration(folder: Path) -> Calibration:
    stored = json.loads((folder / _CALIBRATION).read_text(encoding="utf-8"))
    bandwidth = stored["bandwidth"]
    return Calibration(
        knots=np.array(stored["knots"]),
        table=np.array(stored["table"]),
        levels=tuple(stored["levels"]),
        bandwidth=math.inf if bandwidth is None else bandwidth,
    )


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
