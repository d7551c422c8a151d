"""A ranker as an MLflow model of the generic ``python_function`` kind, and back."""

from __future__ import annotations

from pathlib import Path

import mlflow.pyfunc
import pandas as pd
import yaml
from mlflow.models import infer_signature

from ranker import artifact
from ranker.artifact import ArtifactError
from ranker.length_ranker import LengthRanker
from ranker.pyfunc import EXAMPLE_PROMPT, PARAMS, PyFunc, requirement


def save(ranker: LengthRanker, scratch: Path, card: str) -> Path:
    """The model's folder, made under ``scratch``: signature, example, and the ranker's own folder.

    The loader is a module of this package, never code of the model's own: of two models with the
    same wrapper name mlflow would give both the first one's (mlflow#15941).
    """
    prompts = pd.DataFrame({"prompt": [EXAMPLE_PROMPT]})
    folder = artifact.save(ranker, scratch / "ranker", card)
    model = scratch / "model"
    mlflow.pyfunc.save_model(
        str(model),
        loader_module="ranker.pyfunc",
        data_path=str(folder),
        signature=infer_signature(prompts, PyFunc(ranker).predict(prompts), PARAMS),
        input_example=prompts,
        pip_requirements=[requirement()],
    )
    return model


def ranker_folder(model: Path) -> Path:
    """Where in a downloaded model the ranker's own folder is.

    Raises :class:`ranker.artifact.ArtifactError` for a model that is none of :func:`save`, or whose
    description leads out of it.
    """
    described = model / "MLmodel"
    try:
        about = yaml.safe_load(described.read_text(encoding="utf-8"))
        folder = model / str(about["flavors"]["python_function"]["data"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ArtifactError(f"{described}: no ranker ({type(error).__name__})") from None
    if not folder.resolve().is_relative_to(model.resolve()):
        raise ArtifactError(f"{described}: leads out of the folder of the model")
    return folder
