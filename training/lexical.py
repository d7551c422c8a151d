"""Examples -> the lexical model, not yet calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ranker.features import extract
from ranker.lexical import LexicalModel
from ranker.ngrams import NgramWeights
from training.lexical_config import LexicalConfig
from training.lists import lengths_at
from training.ridge import Fit, Words, ridge
from training.sources import Example, Lengths, Progress, silent
from training.targets import Targets, gather
from training.trees import grow

Floats = NDArray[np.float64]


def fit_lexical(
    examples: Sequence[Example],
    config: LexicalConfig,
    *,
    auxiliary: Sequence[Example] = (),
    progress: Progress = silent,
) -> tuple[LexicalModel, tuple[float, ...]]:
    """The model fitted on the ``train`` rows of ``examples``, and the trees' loss by round.

    ``auxiliary`` rows, of which again only ``train`` counts, are other models' answers or other
    turns under a name of their own: they help to learn which words ask for much, each model's
    lengths as ranks among its own. Deterministic. Memory: besides the examples, eight bytes a
    distinct n-gram of a prompt. Raises ``ValueError`` without training rows.
    """
    own = [e for e in examples if e.split == "train"]
    if not own:
        raise ValueError("no training rows: give examples whose split is train")
    others = [e for e in auxiliary if e.split == "train" and config.auxiliary_weight > 0.0]
    rows = gather(own, others, config.auxiliary_weight)
    progress("Reading words", 0, 3)
    words = Words.of(rows.prompts, config.ngrams, config.window)
    progress("Fitting words", 1, 3)
    linear, out_of_fold = _stacked(words, rows, config)
    progress("Growing trees", 2, 3)
    kept = _some(len(rows), config.trees.most_rows, config.seed)
    features = extract([rows.prompts[i] for i in kept], config.window)
    table = np.column_stack((features, out_of_fold[kept].astype(np.float32)))
    shares = rows.shares[kept]
    label = shares if config.trees.label == "share" else _log_lengths(own, shares)
    trees, curve = grow(
        table, shares, label, rows.weights[kept], config.trees, config.lists, config.seed
    )
    progress("Growing trees", 3, 3)
    return LexicalModel(config.ngrams, linear, trees, config.window), curve


def _stacked(words: Words, rows: Targets, config: LexicalConfig) -> tuple[NgramWeights, Floats]:
    """The linear stage, and what it says of rows that it did not see.

    Trees that were shown in-sample predictions would trust them too much (stacking, Wolpert 1992).
    """

    def fitted(weights: Floats, start: Fit | None = None) -> Fit:
        return ridge(
            words,
            rows.shares,
            weights,
            penalty=config.ridge,
            power=config.relevance,
            start=start,
        )

    whole = fitted(rows.weights)
    # One prompt is in one fold, whichever model answered it.
    text = (p.strip().lower().encode("utf-8", "surrogatepass") for p in rows.prompts)
    fold = np.fromiter(map(crc32, text), np.int64, len(rows)) % config.folds
    out_of_fold = np.full(len(rows), float(np.average(rows.shares, weights=rows.weights)))
    for number in range(config.folds):
        inside = fold == number
        if inside.any() and not inside.all():
            partial = fitted(np.where(inside, 0.0, rows.weights), whole)
            out_of_fold[inside] = partial.predict(words)[inside]
    return whole.weights(words), out_of_fold


def _some(rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """Numbers of at most ``most`` rows, ascending."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def _log_lengths(own: Sequence[Example], shares: Floats) -> Floats:
    """Log lengths at ``shares`` of the served model's answers, whoever gave the answer.

    Read off the weighted Kaplan-Meier curve that the shares come from: an answer that ended keeps
    its length, and a bound, whose share is its expectation, becomes a length beyond itself.
    """
    lengths = Lengths.of(own)
    if lengths.censored.all():
        raise ValueError("trees.label log_tokens needs answers that ended; take share")
    weights = np.array([e.weight for e in own], dtype=np.float64)
    return np.asarray(np.log1p(lengths_at(shares, lengths.tokens, lengths.censored, weights)))
