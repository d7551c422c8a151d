"""Examples -> a calibrated ranker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ranker import calibration
from ranker.baseline import PromptLengthRanker
from ranker.features import extract
from ranker.length_ranker import LengthRanker
from ranker.lexical import LexicalModel
from ranker.ngrams import Counts, NgramWeights, count, document_frequency_weights
from training.config import FitConfig
from training.lists import make_lists, rank_shares
from training.sources import Example, Lengths, Progress, silent

Floats = NDArray[np.float64]
_LEAST_TRAIN, _LEAST_VALIDATION = 50, 20


@dataclass(frozen=True)
class TrainedRanker:
    """A ranker, the baseline calibrated on the same rows, and the loss by boosting round."""

    ranker: LengthRanker
    baseline: PromptLengthRanker
    curve: tuple[float, ...]


def train(
    examples: Sequence[Example],
    config: FitConfig,
    *,
    served_model: str,
    name: str,
    auxiliary: Sequence[Example] = (),
    progress: Progress = silent,
) -> TrainedRanker:
    """Fit on the ``train`` rows, calibrate on the ``validation`` rows; ``test`` is not looked at.

    ``auxiliary`` rows are other models' answers: they help to learn which words ask for much, each
    model's lengths as ranks among its own, and take no part in calibration. Same examples, config
    and library versions, same ranker. Raises ``ValueError`` when there are too few rows.
    """
    own = [e for e in examples if e.split == "train"]
    held = [e for e in examples if e.split == "validation"]
    if len(own) < _LEAST_TRAIN or len(held) < _LEAST_VALIDATION:
        raise ValueError(
            f"{len(own)} training and {len(held)} validation rows are too few to train on; at "
            f"least {_LEAST_TRAIN} and {_LEAST_VALIDATION} are needed"
        )
    helpers = [e for e in auxiliary if e.split == "train" and config.auxiliary_weight > 0.0]
    parts = [own, *_by_model(helpers)]
    rows = [e for part in parts for e in part]
    shares = np.concatenate([_shares(part) for part in parts])
    weights = np.where(np.arange(len(rows)) < len(own), 1.0, config.auxiliary_weight)

    progress("Reading words", 0, 4)
    prompts = [e.prompt for e in rows]
    counts = count(prompts, config.ngrams, config.window)
    idf = document_frequency_weights(counts, config.ngrams)
    progress("Fitting words", 1, 4)
    fold = np.array([crc32(p.strip().lower().encode("utf-8", "surrogatepass")) for p in prompts])
    words, out_of_fold = _linear(counts, idf, shares, weights, fold % config.folds, config)
    progress("Growing trees", 2, 4)
    table = np.column_stack((extract(prompts, config.window), out_of_fold))
    trees, curve = _trees(table, shares, weights, config)
    progress("Calibrating", 3, 4)
    model = LexicalModel(config.ngrams, words, trees, config.window)
    lengths = Lengths.of(held)
    held_prompts = [e.prompt for e in held]
    fitted = calibration.fit(
        model.predict(held_prompts).scores, lengths.tokens, lengths.censored, config.calibration
    )
    plain = calibration.fit(
        PromptLengthRanker.scores(held_prompts),
        lengths.tokens,
        lengths.censored,
        config.calibration,
    )
    progress("Calibrating", 4, 4)
    return TrainedRanker(
        LengthRanker(model, fitted, served_model, name),
        PromptLengthRanker(plain, served_model),
        curve,
    )


def _by_model(rows: Sequence[Example]) -> list[list[Example]]:
    return [[e for e in rows if e.model == model] for model in sorted({e.model for e in rows})]


def _shares(rows: Sequence[Example]) -> Floats:
    lengths = Lengths.of(rows)
    return rank_shares(lengths.tokens, lengths.censored)


def _linear(
    counts: Counts,
    idf: NDArray[np.float32],
    shares: Floats,
    weights: Floats,
    fold: NDArray[np.int64],
    config: FitConfig,
) -> tuple[NgramWeights, Floats]:
    """Ridge regression of rank shares on TF-IDF, and its predictions of rows it did not see.

    Trees that were shown in-sample predictions would trust them too much (stacking, Wolpert 1992).
    """
    from scipy.sparse import csr_matrix, diags_array
    from sklearn.linear_model import Ridge

    tfidf = csr_matrix(
        ((1.0 + np.log(counts.counts)) * idf[counts.buckets], counts.buckets, counts.starts),
        shape=(len(counts), config.ngrams.buckets),
    )
    norm = np.sqrt(np.asarray(tfidf.multiply(tfidf).sum(axis=1)).ravel())
    x = csr_matrix(diags_array(1.0 / np.where(norm > 0.0, norm, 1.0)) @ tfidf)

    def fitted(keep: NDArray[np.bool_]) -> Any:
        ridge = Ridge(alpha=config.ridge, solver="sparse_cg")
        return ridge.fit(x[keep], shares[keep], sample_weight=weights[keep])

    out_of_fold = np.full(len(counts), float(np.average(shares, weights=weights)))
    for number in range(config.folds):
        inside = fold == number
        if inside.any() and not inside.all():
            out_of_fold[inside] = fitted(~inside).predict(x[inside])
    whole = fitted(np.ones(len(counts), np.bool_))
    coefficients = np.asarray(whole.coef_, dtype=np.float32).ravel()
    return NgramWeights(idf, coefficients, float(whole.intercept_)), out_of_fold


def _trees(
    table: Floats, shares: Floats, weights: Floats, config: FitConfig
) -> tuple[Any, tuple[float, ...]]:
    """The booster, and its training loss after each round."""
    import lightgbm

    c = config.trees
    params: dict[str, Any] = {
        "objective": c.objective,
        "learning_rate": c.learning_rate,
        "num_leaves": c.leaves,
        "min_data_in_leaf": c.least_rows,
        "feature_fraction": c.column_share,
        "bagging_fraction": c.row_share,
        "bagging_freq": 1,
        "lambda_l2": c.l2,
        "num_threads": c.threads,
        "seed": config.seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
    }
    order = np.arange(len(shares))
    extra: dict[str, Any] = {}
    label: NDArray[Any] = shares
    if c.objective == "lambdarank":
        lists = make_lists(shares, config.lists, np.random.default_rng(config.seed))
        order, label, extra = lists.order, lists.grades, {"group": lists.sizes}
        # Linear gains: exponential ones care for the longest answers alone, and a queue does not.
        params |= {
            "label_gain": list(range(config.lists.grades)),
            "lambdarank_truncation_level": config.lists.size,
            "metric": "ndcg",
            "eval_at": [config.lists.size],
            "bagging_by_query": True,
        }
    data = lightgbm.Dataset(table[order], label, weight=weights[order], **extra)
    seen: dict[str, dict[str, list[float]]] = {}
    booster = lightgbm.train(
        params,
        data,
        c.rounds,
        valid_sets=[data],
        valid_names=["training"],
        callbacks=[lightgbm.record_evaluation(seen)],
    )
    curve = next(iter(seen["training"].values()))
    return booster, tuple(float(value) for value in curve)
