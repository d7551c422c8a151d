"""Files of a lexical model: weights of hashed n-grams, trees as text."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from ranker.artifact import trees
from ranker.artifact.content import Array, Bundle, Files, json_bytes, tensor_bytes
from ranker.features import FEATURES
from ranker.lexical import LexicalModel
from ranker.ngrams import NgramConfig, NgramWeights
from ranker.window import Window

_SETTINGS, _WEIGHTS, _TREES = "lexical.json", "ngrams.safetensors", "trees.txt"


def write(model: LexicalModel) -> Files:
    weights = model.weights
    used = np.flatnonzero(weights.idf)  # most buckets are empty
    settings = {
        "features": list(FEATURES),
        "window": asdict(model.window),
        "ngrams": asdict(model.ngrams),
        "intercept": weights.intercept,
    }
    tensors = {
        "buckets": used.astype(np.int32),
        "idf": weights.idf[used].astype(np.float32),
        "coefficients": weights.coefficients[used].astype(np.float32),
    }
    return {
        _SETTINGS: json_bytes(settings),
        _WEIGHTS: tensor_bytes(tensors),
        _TREES: trees.text_of(model.trees).encode(),
    }


def read(bundle: Bundle) -> LexicalModel:
    settings = bundle.json(_SETTINGS)
    if settings.get("features") != list(FEATURES):
        bundle.refuse(_SETTINGS, "made for other text features; train the ranker again")
    try:
        ngrams, window = NgramConfig(**settings["ngrams"]), Window(**settings["window"])
        intercept = float(settings["intercept"])
    except (KeyError, TypeError, ValueError) as error:
        bundle.refuse(_SETTINGS, f"{type(error).__name__}: {error}")
    try:
        booster = trees.booster(bundle.text(_TREES), len(FEATURES) + 1)
    except ValueError as error:
        bundle.refuse(_TREES, error)
    return LexicalModel(ngrams, _weights(bundle, ngrams.buckets, intercept), booster, window)


def _weights(bundle: Bundle, size: int, intercept: float) -> NgramWeights:
    kinds: dict[str, type] = {
        "buckets": np.int32,
        "idf": np.float32,
        "coefficients": np.float32,
    }
    tensors = bundle.vectors(_WEIGHTS, kinds)
    buckets = tensors["buckets"]
    if any(len(tensor) != len(buckets) for tensor in tensors.values()):
        bundle.refuse(_WEIGHTS, "its tensors must have one length")
    if len(buckets) and (
        buckets[0] < 0 or buckets[-1] >= size or np.any(buckets[1:] <= buckets[:-1])
    ):
        bundle.refuse(_WEIGHTS, f"buckets must ascend between 0 and {size - 1}")

    def whole(values: Array) -> Array:
        full = np.zeros(size, np.float32)
        full[buckets] = values
        return full

    try:
        return NgramWeights(whole(tensors["idf"]), whole(tensors["coefficients"]), intercept)
    except ValueError as error:
        bundle.refuse(_SETTINGS, error)
