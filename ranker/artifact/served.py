"""Files of what a ranker knows of each served model: its calibration and its scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ranker.artifact import fitted
from ranker.artifact.content import Bundle, Files, inside, json_bytes
from ranker.calibrator import Calibrator
from ranker.calibrators import KINDS
from ranker.scale import Scale

_INDEX = "served.json"


@dataclass(frozen=True, slots=True)
class Served:
    """By served model; of the scales, the empty name is that of all models together."""

    calibrations: Mapping[str, Calibrator]
    scales: Mapping[str, Scale]


def write_served(calibrations: Mapping[str, Calibrator], scales: Mapping[str, Scale]) -> Files:
    """Nothing for a ranker of one model. Names are in the index: a name need not fit a file's."""
    if not calibrations and not scales:
        return {}
    names = sorted(calibrations)
    index = {
        "models": names,
        "scales": {name: asdict(scales[name]) for name in sorted(scales)},
    }
    files = {_INDEX: json_bytes(index)}
    for number, name in enumerate(names):
        files |= inside(f"served-{number}", fitted.write(calibrations[name]))
    return files


def read_served(bundle: Bundle) -> Served:
    """Raises :class:`ranker.artifact.ArtifactError` naming the file that is wrong."""
    if _INDEX not in bundle.files:
        return Served({}, {})
    index = bundle.json(_INDEX)
    names, stored = index.get("models"), index.get("scales")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        bundle.refuse(_INDEX, "models must be a list of names")
    if not isinstance(stored, dict) or (stored and set(stored) != {"", *names}):
        bundle.refuse(_INDEX, "scales must hold one per model and one under the empty name")
    try:
        scales = {name: Scale(**scale) for name, scale in stored.items()}
    except (TypeError, ValueError) as error:
        bundle.refuse(_INDEX, error)
    calibrations = {
        name: fitted.read(bundle.within(f"served-{number}"), KINDS)
        for number, name in enumerate(names)
    }
    return Served(calibrations, scales)
