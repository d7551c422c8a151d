"""A ranker as a folder: JSON, safetensors, LightGBM text, ONNX and a card. Never a pickle.

    ranker.json              whose it is; size and SHA-256 of every file that is read
    README.md                the card, for people
    model/                   see :mod:`ranker.artifact.models`; a blend has part-0/, part-1/
    calibration/             see :mod:`ranker.artifact.fitted`
    served.json              served models told apart, with the scales of their scores
    served-0/, served-1/     their calibrations, in that order
    novelty/                 what tells strange prompts

Reading is bounded and never runs what it reads: sizes are looked at before files are, digests
before contents, contents before LightGBM or ONNX Runtime sees them.
"""

from __future__ import annotations

from pathlib import Path

from ranker.artifact import fitted, models
from ranker.artifact import folder as _disk
from ranker.artifact.content import Files, inside
from ranker.artifact.errors import ArtifactError
from ranker.artifact.manifest import FORMAT, MANIFEST, Manifest, read_files, read_manifest
from ranker.artifact.served import read_served, write_served
from ranker.calibrators import KINDS as CALIBRATORS
from ranker.length_ranker import LengthRanker
from ranker.novelty import Novelty

__all__ = ["CARD", "FORMAT", "MANIFEST", "ArtifactError", "load", "save"]

CARD = "README.md"
_NOVELTIES = {Novelty.kind: Novelty}


def save(ranker: LengthRanker, folder: Path, card: str = "") -> Path:
    """Write ``ranker`` to ``folder``, replacing it as a whole; ``card`` becomes its README.md.

    The same ranker gives the same bytes, and so does one that was loaded. A reader sees the old
    folder, the new one or, between two renames, none. Raises :class:`ArtifactError` when
    ``folder`` holds something else, ``ValueError`` for a model that no artifact can hold.
    """
    files = _files(ranker)
    manifest = Manifest.of(ranker.name, ranker.served_model, ranker.model.kind, files)
    files |= {MANIFEST: manifest.to_bytes(), CARD: (card or f"# {ranker.name}\n").encode()}
    _disk.replace(Path(folder), files, MANIFEST)
    return Path(folder)


def load(folder: Path, name: str | None = None, version: str | None = None) -> LengthRanker:
    """Read a ranker that :func:`save` wrote.

    ``name`` and ``version`` are those a registry gave it; without them the name in the folder and
    the first digits of its content hash. Raises :class:`ArtifactError` (a ``ValueError``) naming
    the file when one is missing, damaged, unsafe or of another format.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    bundle = read_files(folder, manifest)
    served = read_served(bundle)
    strange = bundle.within("novelty")
    return LengthRanker(
        model=models.read(bundle.within("model")),
        calibration=fitted.read(bundle.within("calibration"), CALIBRATORS),
        served_model=manifest.served_model,
        name=name or manifest.name,
        version=version or manifest.version,
        calibrations=served.calibrations,
        scales=served.scales,
        novelty=fitted.read(strange, _NOVELTIES) if strange.files else None,
    )


def _files(ranker: LengthRanker) -> Files:
    return (
        inside("model", models.write(ranker.model))
        | inside("calibration", fitted.write(ranker.calibration))
        | write_served(ranker.calibrations, ranker.scales)
        | inside("novelty", _novelty(ranker))
    )


def _novelty(ranker: LengthRanker) -> Files:
    if ranker.novelty is None:
        return {}
    if not isinstance(ranker.novelty, Novelty):
        raise ValueError("a novelty of a kind that nobody reads cannot be saved")
    return fitted.write(ranker.novelty)
