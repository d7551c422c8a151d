"""Gradient-boosted trees on a table of features (Ke et al. 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from training.lexical_config import TreeConfig
from training.lists import ListConfig, make_lists

if TYPE_CHECKING:
    from lightgbm import Booster

Floats = NDArray[np.float64]


def grow(
    table: NDArray[np.float32],
    shares: Floats,
    label: Floats,
    weights: Floats,
    config: TreeConfig,
    lists: ListConfig,
    seed: int,
) -> tuple[Booster, tuple[float, ...]]:
    """The booster, and its training loss after each round.

    ``table`` [rows, columns]; ``label`` [rows] is what the regressions learn, ``shares`` [rows],
    in (0, 1), are what lists are graded by.
    """
    import lightgbm

    params: dict[str, Any] = {
        "objective": config.objective,
        "alpha": config.alpha,
        "learning_rate": config.learning_rate,
        "num_leaves": config.leaves,
        # Of few rows the bags would be too small to be split at all.
        "min_data_in_leaf": max(1, min(config.least_rows, len(label) // 20)),
        "feature_fraction": config.column_share,
        "bagging_fraction": config.row_share,
        "bagging_freq": 1,
        "lambda_l2": config.l2,
        "num_threads": config.threads,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
    }
    extra: dict[str, Any] = {}
    target: NDArray[Any] = label
    if config.objective == "lambdarank":
        drawn = make_lists(shares, lists, np.random.default_rng(seed))
        table, weights = table[drawn.order], weights[drawn.order]
        target, extra = drawn.grades, {"group": drawn.sizes}
        # Linear gains: exponential ones care for the longest answers alone, and a queue does not.
        params |= {
            "label_gain": list(range(lists.grades)),
            "lambdarank_truncation_level": lists.size,
            "metric": "ndcg",
            "eval_at": [lists.size],
            "bagging_by_query": True,
        }
    data = lightgbm.Dataset(table, target, weight=weights, **extra)
    seen: dict[str, dict[str, list[float]]] = {}
    booster = lightgbm.train(
        params,
        data,
        config.rounds,
        valid_sets=[data],
        valid_names=["training"],
        callbacks=[lightgbm.record_evaluation(seen)],
    )
    curve = next(iter(seen["training"].values()))
    return booster, tuple(float(value) for value in curve)
