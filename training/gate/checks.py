"""Forecasts of both rankers for the same rows -> checks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ranker.metrics import coverage, paired
from ranker.types import Forecast
from training.draws import prompt_numbers
from training.gate import bursts
from training.gate.config import BurstConfig, GateConfig
from training.gate.difference import Difference
from training.gate.verdict import Check
from training.slices import Members, by_caller, slices
from training.sources import Example, Lengths

_LEVELS = (0.5, 0.9)


def checks(
    champion: Sequence[Forecast],
    challenger: Sequence[Forecast],
    examples: Sequence[Example],
    config: GateConfig,
    fresh: Members | None = None,
) -> tuple[Check, ...]:
    """All checks, the order of the whole first. Deterministic by ``config.seed``.

    Forecasts are one per example, in order. Scores of two rankers mean different things: only
    their orders are compared. ``fresh`` rows are those that the challenger was not calibrated on
    either, where some are known to be: coverage is counted on them.
    """
    old, new = (np.array([f.score for f in each]) for each in (champion, challenger))
    lengths = Lengths.of(examples)
    rows = len(examples)
    prompts = prompt_numbers(examples)

    def gap(part: Members) -> Difference:
        d = paired(
            new[part],
            old[part],
            lengths.tokens[part],
            lengths.censored[part],
            clusters=prompts[part],
            seed=config.seed,
            resamples=config.resamples,
        )
        return Difference(d.b, d.a, d.value, d.low, d.high)

    found = [_better(rows, gap(np.ones(rows, np.bool_)), config)]

    def worth(name: str, part: Members, bound: float, how: BurstConfig) -> list[Check]:
        """Of the same rows and bursts for both; empty where they make no queue."""
        kept: list[int] = np.flatnonzero(part).tolist()
        found = bursts.efficiency(
            [champion[i] for i in kept],
            [challenger[i] for i in kept],
            [examples[i] for i in kept],
            how,
            np.random.default_rng(config.seed),
        )
        return [] if found is None else [_no_loss(name, len(kept), found, bound)]

    found += worth("SJF efficiency", np.ones(rows, np.bool_), config.efficiency_loss, config.bursts)
    for name, members in slices(examples).items():
        size = int(members.sum())
        if size < config.slice_rows:
            continue
        found.append(_no_loss(f"tau-b of {name}", size, gap(members), config.slice_loss))
    for name, members in by_caller(examples, config.live_slices).items():
        size = int(members.sum())
        if size < config.slice_rows:
            continue
        found.append(_no_loss(f"tau-b of {name}", size, gap(members), config.slice_loss))
        found += worth(
            f"SJF efficiency of {name}", members, config.slice_loss, config.bursts.smaller
        )
    return (*found, *_calibration(champion, challenger, lengths, config.calibration, fresh))


def _better(rows: int, d: Difference, config: GateConfig) -> Check:
    """The one check that has to be won: no worse as far as seen, hardly worse as far as known."""
    if math.isnan(d.value):
        why = "no two of the answers can be told apart by length"
    elif d.value < 0.0:
        why = f"orders worse by {-d.value:.3f}"
    elif d.low < -config.margin:
        why = f"{rows} rows cannot rule out a loss of {-d.low:.3f}; more held-out rows can"
    else:
        why = ""
    return _check("tau-b", rows, d, -config.margin, why)


def _no_loss(name: str, rows: int, d: Difference, bound: float) -> Check:
    """Lost when the loss is beyond its bound and beyond chance."""
    lost = d.value < -bound and d.high < 0.0
    return _check(name, rows, d, -bound, f"worse by {-d.value:.3f}" if lost else "")


def _check(name: str, rows: int, d: Difference, bound: float, why: str) -> Check:
    return Check(
        name, rows, d.champion, d.challenger, d.value, d.low, d.high, bound, not why, why or "holds"
    )


def _calibration(
    champion: Sequence[Forecast],
    challenger: Sequence[Forecast],
    lengths: Lengths,
    bound: float,
    fresh: Members | None,
) -> list[Check]:
    """Coverage of the challenger; a champion that is further off excuses it.

    ``fresh`` rows may be few, and few the others, by which it was calibrated: the bound is then no
    narrower than chance, 1.96 standard errors of the difference of both coverages.
    """
    part = np.ones(len(lengths.tokens), np.bool_) if fresh is None else fresh
    tokens, censored = lengths.tokens[part], lengths.censored[part]
    shares = []
    for forecasts in (champion, challenger):
        quantiles = np.array([[f.quantile(p) for p in _LEVELS] for f in forecasts])[part]
        shares.append(coverage(quantiles, tokens, censored, _LEVELS)[0])
    found = []
    for level, old, new in zip(_LEVELS, *shares, strict=True):
        gain = abs(old - level) - abs(new - level)
        d = Difference(float(old), float(new), float(gain), math.nan, math.nan)
        most = bound
        if fresh is not None:
            fit = len(part) - len(tokens)
            spread = level * (1.0 - level) * (1.0 / max(1, len(tokens)) + 1.0 / max(1, fit))
            most = max(bound, 1.96 * math.sqrt(spread))
        off = abs(new - level) > most and gain < 0.0
        why = f"{new:.1%} of the answers are within it" if off else ""
        found.append(_check(f"coverage of p{level * 100:.0f}", len(tokens), d, most, why))
    return found
