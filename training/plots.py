"""Three pictures of a ranker on held-out rows, as PNG files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ranker.metrics import coverage, order
from ranker.types import Forecast
from training.sources import Example, Lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#2f6db3", "#d95f02", "#8a8a8a"
_BANDS = 5
_LEAST_IN_BAND = 20
_MOST_POINTS = 3000


def plots(forecasts: Sequence[Forecast], examples: Sequence[Example]) -> dict[str, bytes]:
    """``calibration``, ``tau-by-length`` and ``score-against-length``.

    One forecast per example, in order; at least one. Numbers only, no text of prompts.
    """
    lengths = Lengths.of(examples)
    characters = np.array([len(e.prompt) for e in examples], dtype=np.float64)
    scores = np.array([f.score for f in forecasts])
    return {
        "calibration": _png(_calibration(forecasts, lengths)),
        "tau-by-length": _png(_tau_by_length(scores, characters, lengths)),
        "score-against-length": _png(_score_against_length(forecasts, scores, lengths)),
    }


def _calibration(forecasts: Sequence[Forecast], lengths: Lengths) -> Figure:
    """Reliability: the share of answers within each forecast quantile (Gneiting et al. 2007)."""
    levels = np.array(forecasts[0].levels)
    quantiles = np.array([f.quantiles for f in forecasts])
    shares, told = coverage(quantiles, lengths.tokens, lengths.censored, forecasts[0].levels)
    figure, (axes,) = _figure(1, 5.2)
    noise = 1.96 * np.sqrt(levels * (1.0 - levels) / np.maximum(told, 1))
    grid = np.concatenate(([0.0], levels, [1.0]))
    band = np.concatenate(([0.0], noise, [0.0]))
    axes.fill_between(grid, grid - band, grid + band, color=_GREY, alpha=0.25, lw=0,
                      label="an honest forecast, 95%")  # fmt: skip
    axes.plot([0, 1], [0, 1], color=_GREY, lw=1)
    axes.plot(levels, shares, "o-", color=_BLUE, ms=5, label="measured")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal",
             xlabel="forecast: answer is at most q with probability",
             ylabel="share of answers that were", title=_title("Calibration", lengths))  # fmt: skip
    axes.legend(loc="upper left", frameon=False)
    return figure


def _tau_by_length(scores: np.ndarray, characters: np.ndarray, lengths: Lengths) -> Figure:
    figure, (left, right) = _figure(2, 9.6)
    whole = order(scores, lengths.tokens, lengths.censored, resamples=0).tau
    _bands(left, scores, characters, lengths, whole)
    left.set(xlabel="prompt, characters", ylabel="Kendall tau-b within the band",
             title="By prompt length")  # fmt: skip
    _bands(right, scores, lengths.tokens, lengths, whole)
    right.set(
        xlabel="answer, tokens (answers of like length are hard to order)", title="By answer length"
    )
    return figure


def _bands(axes: Axes, scores: np.ndarray, by: np.ndarray, lengths: Lengths, whole: float) -> None:
    edges = np.unique(np.quantile(by, np.linspace(0.0, 1.0, _BANDS + 1)))
    number = np.clip(np.searchsorted(edges, by, side="right") - 1, 0, max(0, len(edges) - 2))
    names = []
    for band in range(max(1, len(edges) - 1)):
        inside = number == band
        names.append(f"{by[inside].min():,.0f}-{by[inside].max():,.0f}" if inside.any() else "")
        if inside.sum() < _LEAST_IN_BAND:
            continue
        found = order(scores[inside], lengths.tokens[inside], lengths.censored[inside])
        error = [[max(0.0, found.tau - found.low)], [max(0.0, found.high - found.tau)]]
        axes.errorbar([band], [found.tau], yerr=error, fmt="o", color=_BLUE, capsize=4)
    axes.axhline(whole, color=_ORANGE, lw=1, ls="--", label=f"all rows: {whole:.2f}")
    axes.axhline(0.0, color=_GREY, lw=0.8)
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.legend(loc="upper right", frameon=False)


def _score_against_length(
    forecasts: Sequence[Forecast], scores: np.ndarray, lengths: Lengths
) -> Figure:
    """By rank of the score: scores are ordinal, their size means nothing."""
    figure, (axes,) = _figure(1, 7.2)
    ranked = np.argsort(scores, kind="stable")
    share = np.arange(len(ranked)) / max(1, len(ranked) - 1)
    shown = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), _MOST_POINTS)).astype(int))
    tokens = np.maximum(lengths.tokens[ranked], 1.0)
    cut = lengths.censored[ranked]
    for members, marker, color, label in (
        (~cut, "o", _BLUE, "answer"),
        (cut, "^", _ORANGE, "cut off: at least this long"),
    ):
        part = shown[members[shown]]
        if len(part):
            axes.plot(share[part], tokens[part], marker, color=color, ms=3.2, alpha=0.45, mew=0,
                      label=label)  # fmt: skip
    low, middle, high = (
        np.maximum([forecasts[i].quantile(p) for i in ranked], 1.0) for p in (0.1, 0.5, 0.9)
    )
    axes.fill_between(
        share, low, high, color="black", alpha=0.12, lw=0, label="forecast p10 to p90"
    )
    axes.plot(share, middle, color="black", lw=1.4, label="forecast median")
    axes.set(yscale="log", xlim=(0, 1), xlabel="rank of the score, shortest forecast first",
             ylabel="answer, tokens", title=_title("Score against length", lengths))  # fmt: skip
    axes.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")
    return figure


def _title(what: str, lengths: Lengths) -> str:
    cut = int(lengths.censored.sum())
    return f"{what}: {len(lengths.tokens):,} test prompts" + (f", {cut:,} cut off" if cut else "")


def _figure(panels: int, width: float) -> tuple[Figure, Sequence[Axes]]:
    """Without pyplot, which keeps every figure and picks a window system."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4.6), dpi=110, layout="constrained")
    axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(alpha=0.25, lw=0.6)
    return figure, list(axes)


def _png(figure: Figure) -> bytes:
    made = io.BytesIO()
    # No software version and no date: the same forecasts, the same bytes.
    figure.savefig(made, format="png", metadata={"Software": None})
    return made.getvalue()
