"""How unlike the training traffic a prompt is, without looking at lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranker.features import FEATURES, extract
from ranker.prediction import Prediction
from ranker.window import Window

Floats = NDArray[np.float64]
_LEAST = 20  # rows that percentiles are worth anything from
_CHUNK = 1024  # prompts whose distances to all prototypes are held at one time


@dataclass(frozen=True, slots=True)
class NoveltyConfig:
    """``shrinkage`` of the covariance of the features towards a multiple of the identity (Ledoit
    & Wolf 2004); at most ``prototypes`` training embeddings are kept, and the distance is that to
    the ``nearest`` of them (Sun et al. 2022, arXiv 2204.06507)."""

    shrinkage: float = 0.1
    prototypes: int = 2000
    nearest: int = 5

    def __post_init__(self) -> None:
        if not 0.0 < self.shrinkage <= 1.0:
            raise ValueError(f"novelty.shrinkage must lie in (0, 1], got {self.shrinkage}")
        if self.nearest < 1 or self.prototypes < self.nearest:
            raise ValueError("novelty.nearest must lie between 1 and novelty.prototypes")


@dataclass(frozen=True, slots=True)
class Novelty:
    """Percentiles of strangeness among prompts of the training traffic that were held out.

    Two views: what the text looks like, as the Mahalanobis distance of its features (signed
    logarithms) from those in training; and, of models that give embeddings, what it is about, as
    the distance to the nearest embeddings of training prompts, all of unit length about their
    mean. Each view is a percentile of its own; together, the percentile of the larger: a prompt is
    new when either its text or its meaning is.

    ``centre``, ``spread`` [features], ``precision`` [features, features]; ``middle`` [width] and
    ``prototypes`` [kept, width], empty for models without embeddings; ``references`` [views, held]
    and ``combined`` [held], ascending. It holds no text; of embeddings like these, though, much of
    a text can be told (Morris et al. 2023, arXiv 2310.06816). Stored in half precision, they are
    held in single: widened for each prompt they would cost more than all the rest.
    """

    kind: ClassVar[str] = "novelty"

    window: Window
    nearest: int
    centre: Floats
    spread: Floats
    precision: Floats
    middle: NDArray[np.float32]
    prototypes: NDArray[np.float32]
    references: Floats
    combined: Floats

    def of(self, prompts: Sequence[str], prediction: Prediction) -> Floats:
        """[n] in [0, 1]; .95 is stranger than 95% of the held-out traffic.

        Raises ``ValueError`` when the prediction lacks the embeddings that this was fitted with.
        """
        if not prompts:
            return np.empty(0)
        return _percentiles(self.combined, self._larger(self._views(prompts, prediction)))

    def _views(self, prompts: Sequence[str], prediction: Prediction) -> list[Floats]:
        x = (_signed_log(extract(prompts, self.window)) - self.centre) / self.spread
        views = [np.einsum("ij,ij->i", x @ self.precision, x)]
        if len(self.prototypes):
            if prediction.embeddings is None:
                raise ValueError("novelty was fitted with embeddings, the model gives none")
            views.append(self._distances(prediction.embeddings))
        return views

    def _distances(self, embeddings: Floats) -> Floats:
        """Squared distance to the nearest prototypes on the unit sphere, in the mean, [n]."""
        unit = _unit(embeddings, self.middle)
        k = min(self.nearest, len(self.prototypes))
        found = [
            -np.partition(-(unit[start : start + _CHUNK] @ self.prototypes.T), k - 1, axis=1)[:, :k]
            for start in range(0, len(unit), _CHUNK)
        ]
        return np.asarray(2.0 - 2.0 * np.concatenate(found).mean(axis=1), dtype=np.float64)

    def _larger(self, views: Sequence[Floats]) -> Floats:
        each = [_percentiles(r, v) for r, v in zip(self.references, views, strict=True)]
        return np.asarray(np.max(each, axis=0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        names = ("centre", "spread", "precision", "middle", "prototypes", "references", "combined")
        parts = {name: getattr(self, name) for name in names}
        return parts | {"prototypes": self.prototypes.astype(np.float16)}

    def numbers(self) -> dict[str, Any]:
        return {
            "features": list(FEATURES),
            "nearest": self.nearest,
            "window": asdict(self.window),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Self:
        """What :meth:`arrays` and :meth:`numbers` gave. Raises ``ValueError`` or ``KeyError`` for
        parts that do not fit together or were made for other features."""
        if numbers["features"] != list(FEATURES):
            raise ValueError("made for other text features")
        size, held = len(FEATURES), len(arrays["combined"])
        kept, width = arrays["prototypes"].shape
        shapes = {
            "centre": (size,),
            "spread": (size,),
            "precision": (size, size),
            "middle": (width,),
            "prototypes": (kept, width),
            "references": (2 if kept else 1, held),
        }
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
                raise ValueError(f"{name} must be finite and of shape {shape}")
        if not held or np.any(arrays["spread"] <= 0.0):
            raise ValueError("combined must not be empty, spread must be positive")
        nearest = numbers["nearest"]
        if not isinstance(nearest, int) or nearest < 1:
            raise ValueError("nearest must be a whole number, at least 1")
        parts = {name: arrays[name] for name in (*shapes, "combined")}
        parts |= {"prototypes": parts["prototypes"].astype(np.float32)}
        return cls(window=Window(**numbers["window"]), nearest=nearest, **parts)


def fit(
    prompts: Sequence[str],
    prediction: Prediction,
    held_prompts: Sequence[str],
    held_prediction: Prediction,
    config: NoveltyConfig,
    *,
    window: Window,
    seed: int,
) -> Novelty:
    """From training ``prompts`` and a model's ``prediction`` of them; percentiles are among the
    ``held`` ones, which must be of the same traffic and not trained on. No lengths are needed.

    Raises ``ValueError`` when either has fewer than 20 rows.
    """
    if min(len(prompts), len(held_prompts)) < _LEAST:
        raise ValueError(
            f"{len(prompts)} training and {len(held_prompts)} validation prompts are too few to "
            f"tell what is new; at least {_LEAST} are needed of each"
        )
    features = _signed_log(extract(prompts, window))
    centre, spread = features.mean(axis=0), features.std(axis=0) + 1e-3
    covariance = np.cov(((features - centre) / spread).T)
    identity = np.eye(len(FEATURES)) * np.trace(covariance) / len(FEATURES)
    mixed = (1.0 - config.shrinkage) * covariance + config.shrinkage * identity
    middle, prototypes = np.empty(0, np.float32), np.empty((0, 0), np.float32)
    if prediction.embeddings is not None:
        middle = prediction.embeddings.mean(axis=0).astype(np.float32)
        rows = np.random.default_rng(seed).permutation(len(prompts))[: config.prototypes]
        kept = _unit(prediction.embeddings[rows], middle).astype(np.float16)
        prototypes = kept.astype(np.float32)  # as they will be once they were stored
    blank = np.empty((1 + (len(prototypes) > 0), 0))
    made = Novelty(
        window,
        config.nearest,
        centre,
        spread,
        np.linalg.inv(mixed),
        middle,
        prototypes,
        references=blank,
        combined=blank[0],
    )
    return _referred(made, held_prompts, held_prediction)


def _referred(novelty: Novelty, prompts: Sequence[str], prediction: Prediction) -> Novelty:
    """With percentiles among ``prompts``."""
    views = novelty._views(prompts, prediction)
    known = replace(novelty, references=np.sort(np.stack(views), axis=1))
    return replace(known, combined=np.sort(known._larger(views)))


def _signed_log(table: NDArray[np.float32]) -> Floats:
    """Counts run over decades, a few are negative codes."""
    wide = table.astype(np.float64)
    return np.asarray(np.sign(wide) * np.log1p(np.abs(wide)))


def _unit(embeddings: Floats, middle: NDArray[np.float32]) -> NDArray[np.float32]:
    centred = embeddings.astype(np.float32) - middle
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.where(norms > 0.0, norms, 1.0), dtype=np.float32)


def _percentiles(reference: Floats, values: Floats) -> Floats:
    """Share of ``reference`` (ascending) below each value, ties halved."""
    below = np.searchsorted(reference, values, side="left")
    upto = np.searchsorted(reference, values, side="right")
    return np.asarray((below + upto) / (2.0 * len(reference)))
