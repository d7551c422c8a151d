"""Clairvoyant: nineteen lexical features, boosted trees over three classes, the score P(long)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.recipes.benchmark import Benchmark
from training.recipes.compare import Floats
from training.recipes.recipe import Scorer, Setup
from training.sources import Lengths

# fmt: off
_CODE = frozenset((
    "code", "function", "def", "class", "script", "program", "implement", "algorithm", "debug",
    "refactor", "import", "variable", "loop", "recursion", "api", "sql", "regex",
))
_LAYOUT = (
    "list", "table", "bullet", "step by step", "enumerate", "outline", "numbered", "format",
    "structure",
)
# fmt: on
_LIMIT = re.compile(
    r"\bin\s+\d+\s+(?:words?|sentences?)\b|\bno\s+more\s+than\s+\d+|\bunder\s+\d+\s+words?\b"
    r"|\b(?:briefly|concisely|shortly)\b|\bone[\s-]liner\b|\btl;?dr\b"
)
_CLAUSES = (",", ";", " and ", " but ", " because ")
# In the order in which a prompt is asked for them; the first that is there counts.
_VERBS = (
    ("summarize", r"summariz(?:e|ing)"),
    ("explain", "explain"),
    ("compare", r"compar(?:e|ing)"),
    ("other", r"translat(?:e|ing)"),  # a verb that is looked for, yet has no column of its own
    ("generate", r"generat(?:e|ing)"),
    ("implement", "implement"),
    ("other", "debug|refactor"),
    ("list", "list"),
    ("write", "write"),
    ("describe", r"describ(?:e|ing)"),
    ("define", r"defin(?:e|ing)"),
    ("what", "what"),
    ("how", "how"),
    ("why", "why"),
)
_PATTERNS = tuple((name, re.compile(rf"\b(?:{pattern})\b")) for name, pattern in _VERBS)
_PATIENCE = 20  # rounds without a better fit of validation rows
_WORD = re.compile(r"\b\w+\b")
#: Six numbers, then one column for each verb.
FEATURES = (
    "prompt_tokens",
    "code_keyword",
    "length_constraint",
    "ends_with_question",
    "format_keyword",
    "clauses",
    *sorted({name for name, _ in _VERBS} | {"other"}),
)


def features(prompts: Sequence[str]) -> Floats:
    """The nineteen, shape ``[prompts, 19]``."""
    table = np.zeros((len(prompts), len(FEATURES)))
    for i, prompt in enumerate(prompts):
        lower = prompt.lower()
        verb = next((name for name, p in _PATTERNS if p.search(lower)), "other")
        table[i, :6] = (
            len(prompt) // 4,
            bool(_CODE & set(_WORD.findall(lower))),
            bool(_LIMIT.search(lower)),
            prompt.rstrip().endswith("?"),
            any(word in lower for word in _LAYOUT),
            sum(prompt.count(mark) for mark in _CLAUSES),
        )
        table[i, FEATURES.index(verb)] = 1.0
    return table


@dataclass(frozen=True, slots=True)
class Clairvoyant:
    """``cuts`` part short, medium and long in tokens; at most ``per_class`` rows of each train.

    Where a class would hold less than a twentieth of the rows, thirds take the place of ``cuts``.
    """

    name: str = "clairvoyant"
    source: str = "arXiv 2606.07248; features and trees of Aravind0403/clairvoyant-scheduler v3"
    differs: str = (
        "LightGBM instead of XGBoost, same depth and rate, rounds up to the published 300 stopped "
        "by validation; thirds where 200 and 800 tokens do not part the data (both lift its tau "
        "on ShareGPT validation); four characters count as a token, as in its sidecar"
    )
    cuts: tuple[float, float] = (200.0, 800.0)
    per_class: int = 2000
    rounds: int = 300
    depth: int = 6
    rate: float = 0.1

    def fit(self, benchmark: Benchmark, setup: Setup) -> Scorer:
        """Balanced classes, then trees, as many as help on validation rows."""
        import lightgbm

        train = benchmark.learnt()
        tokens = Lengths.of(train).tokens
        edges = parting(tokens, self.cuts)
        label = np.searchsorted(edges, tokens, side="right")
        chosen = _balanced(label, self.per_class, np.random.default_rng(setup.seed))
        params: dict[str, Any] = {
            "objective": "multiclass",
            "num_class": 3,
            "max_depth": self.depth,
            "num_leaves": 2**self.depth,
            "learning_rate": self.rate,
            "num_threads": 1,
            "deterministic": True,
            "seed": setup.seed,
            "verbose": -1,
        }
        held = benchmark.validation
        data = lightgbm.Dataset(features([train[i].prompt for i in chosen]), label[chosen])
        check = data.create_valid(
            features([e.prompt for e in held]),
            np.searchsorted(edges, Lengths.of(held).tokens, side="right"),
        )
        stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
        trees = lightgbm.train(params, data, self.rounds, valid_sets=[check], callbacks=[stop])

        def scores(prompts: Sequence[str], models: Sequence[str]) -> Floats:
            odds = np.asarray(trees.predict(features(prompts), num_threads=1), dtype=np.float64)
            return odds[:, 2]

        return scores

    def settings(self, benchmark: Benchmark, setup: Setup) -> dict[str, object]:
        numbers = {
            name: value for name, value in asdict(self).items() if not isinstance(value, str)
        }
        return {**numbers, "seed": setup.seed}


def parting(tokens: Floats, cuts: tuple[float, float]) -> Floats:
    """Where short, medium and long part: at ``cuts``, or at the thirds of ``tokens`` where that
    would leave a class all but empty."""
    label = np.searchsorted(np.asarray(cuts), tokens, side="right")
    if np.bincount(label, minlength=3).min() >= 0.05 * len(tokens):
        return np.asarray(cuts)
    thirds: Floats = np.quantile(tokens, (1 / 3, 2 / 3))
    return thirds


def _balanced(label: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    parts = [rng.permutation(np.flatnonzero(label == k))[:most] for k in range(3)]
    return np.sort(np.concatenate(parts))
