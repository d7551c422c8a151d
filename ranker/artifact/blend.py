"""Files of a blend: its weights, and a sub-folder for each part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from ranker.artifact.content import Bundle, Files, inside, json_bytes
from ranker.blend import BlendModel
from ranker.prediction import LengthModel
from ranker.scale import Scale

_SETTINGS = "blend.json"


def write(model: BlendModel, part: Callable[[LengthModel], Files]) -> Files:
    """``part`` gives the files of one of the models that are blended."""
    settings = {"weights": list(model.weights), "scales": [asdict(s) for s in model.scales]}
    files = {_SETTINGS: json_bytes(settings)}
    for number, each in enumerate(model.parts):
        files |= inside(f"part-{number}", part(each))
    return files


def read(bundle: Bundle, part: Callable[[Bundle], LengthModel]) -> BlendModel:
    settings = bundle.json(_SETTINGS)
    try:
        weights = tuple(float(weight) for weight in settings["weights"])
        scales = tuple(Scale(**stored) for stored in settings["scales"])
    except (KeyError, TypeError, ValueError) as error:
        bundle.refuse(_SETTINGS, f"{type(error).__name__}: {error}")
    parts = tuple(part(bundle.within(f"part-{number}")) for number in range(len(weights)))
    try:
        return BlendModel(parts, weights, scales)
    except ValueError as error:
        bundle.refuse(_SETTINGS, error)
