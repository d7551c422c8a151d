"""How fast traffic goes stale: the half-life whose ranker orders the newest rows best.

Too long after a shift, and old traffic drowns the new; too short when nothing shifted, and most of
what is known is thrown away. The newest traffic itself says which it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ranker.metrics import order
from training.lexical import fit_lexical
from training.lexical_config import LexicalConfig
from training.said import said_of
from training.sources import Data, Lengths, Progress
from training.sources.recent import RecencyConfig, Recent
from training.split import TRAIN, VALIDATION

#: Outcomes, ascending.
HALF_LIVES = (60.0, 250.0, 1000.0, 4000.0, 16_000.0)
#: Newest training rows that are tried with: enough to tell, in seconds.
_MOST_ROWS = 20_000


def taus(
    recent: Recent,
    config: RecencyConfig,
    half_lives: Sequence[float],
    lexical: LexicalConfig,
    helpers: Sequence[Data],
    progress: Progress,
) -> dict[float, float]:
    """Kendall's tau-b on the validation rows of ``recent``, by half-life, of words alone.

    Of half-lives longer than all training rows only the first is tried: the others would weigh them
    alike. NaN where there is no order.
    """
    rows = len(recent.data(replace(config, half_life=half_lives[-1]))[0].split(TRAIN))
    longest = next((h for h in half_lives if h >= rows), half_lives[-1])
    tried = [h for h in half_lives if h <= longest]
    auxiliary = [e for extra in helpers for e in extra.examples]
    found: dict[float, float] = {}
    for number, half_life in enumerate(tried):
        progress("Trying half-lives", number, len(tried))
        data, _ = recent.data(replace(config, half_life=half_life))
        held = data.split(VALIDATION)
        model, _ = fit_lexical(data.split(TRAIN)[-_MOST_ROWS:], lexical, auxiliary=auxiliary)
        lengths = Lengths.of(held)
        scores = said_of(model, held, recent.served_model).scores
        found[half_life] = order(scores, lengths.tokens, lengths.censored, resamples=0).tau
    progress("Trying half-lives", len(tried), len(tried))
    return found


def best(tried: Mapping[float, float]) -> float:
    """The half-life of the highest tau; of equal ones the longest, which wastes least."""
    return max(tried, key=lambda h: (-math.inf if math.isnan(tried[h]) else tried[h], h))
