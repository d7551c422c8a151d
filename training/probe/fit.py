"""Examples -> a probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from ranker.encoder.probe import Line, ProbeNetwork
from ranker.encoder.text import EncoderText
from ranker.metrics import order
from ranker.survival import weighted_quantiles
from ranker.types import LEVELS
from training.draws import prompt_numbers
from training.encoder.precision import autocast_type
from training.encoder.threads import threads
from training.enough import enough
from training.lists import lengths_at, rank_shares
from training.probe.config import ProbeConfig
from training.probe.decoder import (
    chat_tokenizer,
    cut,
    layers,
    load_decoder,
    most_tokens,
    states,
)
from training.sources import Example, Lengths, Progress, silent
from training.targets import Targets, gather

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Floats = NDArray[np.float64]
_READING = "Reading with the decoder"
_PENALTIES = (100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0)


@dataclass(frozen=True, slots=True)
class FittedProbe:
    """``network`` ends after ``layer``; ``text`` it reads by; ``taus`` [layers] on validation of
    each layer that was looked at, from the first; ``penalty`` of the ridge regression."""

    network: ProbeNetwork
    text: EncoderText
    layer: int
    penalty: float
    taus: tuple[float, ...]


def fit_probe(
    examples: Sequence[Example],
    config: ProbeConfig,
    *,
    auxiliary: Sequence[Example] = (),
    backbone: Path,
    progress: Progress = silent,
) -> FittedProbe:
    """Ridge regression of the rank of lengths on the decoder's state, on the ``train`` rows; layer
    and penalty are those that order the ``validation`` rows best; ``test`` is not looked at.

    ``auxiliary`` rows are other models' answers, or answers elsewhere: they count less, each
    model's lengths as ranks among its own. Deterministic for given library versions and threads;
    CUDA is used when there. What it reads is not kept: a run that was stopped begins again, to the
    same result. Raises ``ValueError`` when there are too few rows, several served models among
    them, or no such decoder or layer.
    """
    own, held = enough(examples)
    if len(served := sorted({e.model for e in (*own, *held)})) > 1:
        raise ValueError(
            f"a probe is of one served model, and these rows are of {len(served)} "
            f"({', '.join(served[:3])}, ...): train one for each, or take another tier"
        )
    others = [e for e in auxiliary if e.split == "train" and config.auxiliary_weight > 0.0]
    targets = gather(own, others, config.auxiliary_weight)
    decoder = load_decoder(backbone)
    _refuse_what_does_not_fit(decoder, config)
    try:
        tokenizer = chat_tokenizer(backbone)
        text = EncoderText(tokenizer, config.length, config.head_share, separated=False)
    except ValueError as error:  # which speaks of an encoder
        raise ValueError(str(error).replace("encoder.", "probe.", 1)) from None
    with threads(config.threads):
        reader = _Reader(decoder, text, config, progress)
        return _fitted(reader, targets, len({e.prompt for e in own}), held, config)


def _refuse_what_does_not_fit(decoder: PreTrainedModel, config: ProbeConfig) -> None:
    most, deepest = most_tokens(decoder), layers(decoder)
    if most is not None and config.length > most:
        raise ValueError(
            f"probe.length must be at most {most}, what every layer of the decoder sees, "
            f"got {config.length}"
        )
    if not deepest:
        raise ValueError(
            "probe.backbone: words and one layer of the decoder have more than 2 GB in single "
            "precision, which no artifact holds: take a smaller one"
        )
    if config.layer > deepest:
        raise ValueError(
            f"probe.layer must be at most {deepest}, what the decoder has and an artifact holds, "
            f"got {config.layer}"
        )


def _fitted(
    reader: _Reader,
    targets: Targets,
    own: int,
    held: Sequence[Example],
    config: ProbeConfig,
) -> FittedProbe:
    validation = _Held.of(held)
    layer, taus = config.layer, tuple[float, ...]()
    if not layer:
        layer, taus = _choose(reader, targets, own, validation, config)
    cut(reader.decoder, layer)
    known = reader.after(targets.prompts, layer)
    seen = reader.after(validation.prompts, layer)
    fit = _best(known, targets.shares, targets.weights, seen, validation)
    said = fit.line.scores(seen)[validation.rows]
    line = _with_lengths(fit.line, said, validation.lengths)
    network = ProbeNetwork(reader.decoder.cpu(), line).eval()
    return FittedProbe(network, reader.text, layer, fit.penalty, taus or (fit.tau,))


def _choose(
    reader: _Reader, targets: Targets, own: int, validation: _Held, config: ProbeConfig
) -> tuple[int, tuple[float, ...]]:
    """The first layer that is nearly as good as the best, by some of the ``own`` first targets."""
    rng = np.random.default_rng(config.seed)
    some = np.sort(rng.permutation(own)[: config.most_rows])
    every = range(1, layers(reader.decoder) + 1)
    judge = validation.first(config.most_rows)
    known = reader.read([targets.prompts[i] for i in some], every)
    seen = reader.read(judge.prompts, every)
    taus = [
        _best(
            known[:, i].astype(np.float64),
            targets.shares[some],
            targets.weights[some],
            seen[:, i].astype(np.float64),
            judge,
        ).tau
        for i in range(len(every))
    ]
    good = max(taus) - config.slack
    layer = next(n for n, tau in zip(every, taus, strict=True) if tau >= good)
    reader.keep([targets.prompts[i] for i in some], known[:, layer - 1])
    reader.keep(judge.prompts, seen[:, layer - 1])
    return layer, tuple(taus)


@dataclass(frozen=True, slots=True)
class _Held:
    """Validation rows; ``rows`` says which of ``prompts`` each is of."""

    prompts: list[str]
    rows: NDArray[np.int64]
    lengths: Lengths

    @classmethod
    def of(cls, held: Sequence[Example]) -> _Held:
        prompts = list(dict.fromkeys(e.prompt for e in held))
        return cls(prompts, prompt_numbers(held), Lengths.of(held))

    def first(self, prompts: int) -> _Held:
        """Those of the first ``prompts`` prompts."""
        kept = self.rows < prompts
        lengths = Lengths(self.lengths.tokens[kept], self.lengths.censored[kept])
        return _Held(self.prompts[:prompts], self.rows[kept], lengths)

    def tau(self, scores: Floats) -> float:
        """Of ``scores`` by prompt; 0 where they order nothing."""
        lengths = self.lengths
        found = order(scores[self.rows], lengths.tokens, lengths.censored, resamples=0).tau
        return found if np.isfinite(found) else 0.0


@dataclass(frozen=True, slots=True)
class _Fit:
    line: Line
    penalty: float
    tau: float


def _best(known: Floats, shares: Floats, weights: Floats, seen: Floats, held: _Held) -> _Fit:
    """Of all penalties, the one with the highest tau of ``held``, whose states are ``seen``."""
    from sklearn.linear_model import Ridge

    mean, spread = known.mean(axis=0), known.std(axis=0)
    spread[spread == 0.0] = 1.0
    alike, flat = (known - mean) / spread, np.zeros(len(LEVELS))
    fits = []
    for penalty in _PENALTIES:
        ridge = Ridge(alpha=penalty).fit(alike, shares, sample_weight=weights)
        coefficients = np.asarray(ridge.coef_, dtype=np.float64)
        line = Line(mean, spread, coefficients, float(ridge.intercept_), 0.0, flat)
        fits.append(_Fit(line, penalty, held.tau(line.scores(seen))))
    return max(fits, key=lambda fit: fit.tau)  # the first of equals


def _with_lengths(line: Line, scores: Floats, lengths: Lengths) -> Line:
    """``line`` with quantiles: log tokens along the scores of validation rows, and what is left."""
    tokens, censored = lengths.tokens, lengths.censored
    expected = np.log1p(lengths_at(rank_shares(tokens, censored), tokens, censored))
    around = scores - scores.mean()
    slope = max(0.0, float(around @ expected) / max(float(around @ around), 1e-12))
    # Above 0, as the curve takes them: a bound's rest is a bound.
    rest = np.log1p(tokens) - slope * scores
    least = float(rest.min())
    offsets = weighted_quantiles(rest - least, censored, np.ones(len(rest)), LEVELS) + least
    return replace(line, slope=slope, offsets=np.asarray(offsets))


class _Reader:
    """Prompts -> states. What is kept of the layer that was chosen is not read again."""

    def __init__(
        self, decoder: PreTrainedModel, text: EncoderText, config: ProbeConfig, progress: Progress
    ) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.decoder: PreTrainedModel = decoder.to(device)  # type: ignore[arg-type]
        self.text = text
        self._config, self._progress = config, progress
        self._kind = autocast_type(config.precision, device)
        self._kept: dict[str, NDArray[np.float16]] = {}

    def keep(self, prompts: Sequence[str], read: NDArray[np.float16]) -> None:
        # Copies: a row that is looked at through all layers would keep them all.
        self._kept |= {prompt: row.copy() for prompt, row in zip(prompts, read, strict=True)}

    def after(self, prompts: Sequence[str], layer: int) -> Floats:
        """[prompts, width] after the one layer that is read from now on."""
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._kept]
        if new:
            self.keep(new, self.read(new, [layer])[:, 0])
        return np.stack([self._kept[prompt] for prompt in prompts]).astype(np.float64)

    def read(self, prompts: Sequence[str], at: Sequence[int]) -> NDArray[np.float16]:
        """[prompts, layers, width]"""
        self._progress(_READING, 0, len(prompts))
        return states(
            self.decoder,
            self.text.ids(prompts),
            at,
            batch=self._config.batch,
            kind=self._kind,
            progress=lambda done: self._progress(_READING, done, len(prompts)),
        )
