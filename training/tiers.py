"""What a ranker reads a prompt with: words, an encoder, both, or the served model itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ranker.prediction import LengthModel, Prediction
from training.blend import fit_blend
from training.config import BLEND, ENCODER, LEXICAL, PROBE, TrainConfig
from training.encoder.config import EncoderConfig
from training.encoder.watch import Step, unwatched
from training.lexical import fit_lexical
from training.probe.config import ProbeConfig
from training.said import said_of
from training.sources import Example, Lengths, Progress, silent

if TYPE_CHECKING:
    from training.encoder.fit import FittedEncoder

#: Validation prompts on which the served form of a network is compared with the trained one.
_COMPARED = 200


@dataclass(frozen=True)
class FittedModel:
    """A model that is not calibrated yet, and what it ``said`` of the validation rows, in order.

    ``curves`` are losses by step, by tier; ``metrics`` say what each tier reached on validation and
    what it weighs, and tau-b between the order of an encoder as it serves and as it was trained.
    """

    model: LengthModel
    said: Prediction
    curves: Mapping[str, tuple[float, ...]]
    metrics: Mapping[str, float]


def fit_tiers(
    examples: Sequence[Example],
    config: TrainConfig,
    *,
    served_model: str,
    auxiliary: Sequence[Example] = (),
    workdir: Path | None = None,
    progress: Progress = silent,
    watch: Callable[[Step], None] = unwatched,
) -> FittedModel:
    """Fit on the ``train`` rows; the ``validation`` rows say when an encoder is done, how deep a
    probe reads and how much each tier counts.

    What tiers say of these is what they say for ``served_model``. ``auxiliary`` rows are other
    models' answers, or other turns. In ``workdir`` an encoder keeps the checkpoint that the same
    call goes on from. Same examples, settings and library versions, same model. Raises
    ``ValueError`` as the tiers do.
    """
    held = [e for e in examples if e.split == "validation"]
    fitted: dict[str, LengthModel] = {}
    curves: dict[str, tuple[float, ...]] = {}
    metrics: dict[str, float] = {}
    if config.tier in (LEXICAL, BLEND):
        fitted[LEXICAL], curves[LEXICAL] = fit_lexical(
            examples, config.lexical, auxiliary=auxiliary, progress=progress
        )
    if config.tier in (ENCODER, BLEND):
        fitted[ENCODER], curves[ENCODER], kept = _encoder(
            examples, config.encoder, auxiliary, workdir, progress, watch
        )
        metrics["encoder.int8.tau_to_torch"] = kept
    if config.tier == PROBE:
        fitted[PROBE], found = _probe(examples, config.probe, auxiliary, workdir, progress)
        metrics |= found
    parts = tuple(fitted.values())
    told = [said_of(part, held, served_model) for part in parts]
    blend = fit_blend(told, Lengths.of(held))
    return FittedModel(
        blend.model(parts),
        blend.said(parts, told),
        curves,
        metrics | dict(_measured(fitted, blend.part_taus, blend.weights, blend.tau)),
    )


def lend_a_hand(
    examples: Sequence[Example],
    config: TrainConfig,
    *,
    auxiliary: Sequence[Example] = (),
    workdir: Path | None = None,
) -> None:
    """What every process but the first does while that one is in :func:`fit_tiers` with the same
    rows: its part of each batch of an encoder. Of the other tiers there is nothing to share."""
    if config.tier in (ENCODER, BLEND):
        _trained(examples, config.encoder, auxiliary, workdir)


def _encoder(
    examples: Sequence[Example],
    config: EncoderConfig,
    auxiliary: Sequence[Example],
    workdir: Path | None,
    progress: Progress,
    watch: Callable[[Step], None],
) -> tuple[LengthModel, tuple[float, ...], float]:
    """The model as it will serve, the losses, and tau-b between its order and the network's."""
    from ranker.encoder.export import export
    from training.encoder.served_form import lost

    fitted = _trained(examples, config, auxiliary, workdir, progress, watch)
    progress("Exporting the encoder", 0, 1)
    model = export(fitted.network, fitted.text)
    kept = lost(model, fitted.network, _compared(examples))["kendall"]
    progress("Exporting the encoder", 1, 1)
    return model, fitted.curve, kept


def _probe(
    examples: Sequence[Example],
    config: ProbeConfig,
    auxiliary: Sequence[Example],
    workdir: Path | None,
    progress: Progress,
) -> tuple[LengthModel, Mapping[str, float]]:
    """The model as it will serve, and numbers about it."""
    from ranker.encoder.export import export_probe
    from training.encoder.served_form import lost
    from training.probe.decoder import located
    from training.probe.fit import fit_probe

    with located(config.backbone, workdir) as folder:
        fitted = fit_probe(
            examples, config, auxiliary=auxiliary, backbone=folder, progress=progress
        )
    progress("Exporting the decoder", 0, 1)
    model = export_probe(fitted.network, fitted.text)
    kept = lost(model, fitted.network, _compared(examples))["kendall"]
    progress("Exporting the decoder", 1, 1)
    return model, {
        "probe.layer": float(fitted.layer),
        "probe.penalty": fitted.penalty,
        "probe.int8.tau_to_torch": kept,
    }


def _compared(examples: Sequence[Example]) -> list[str]:
    held = list(dict.fromkeys(e.prompt for e in examples if e.split == "validation"))
    return held[:_COMPARED]


def _trained(
    examples: Sequence[Example],
    config: EncoderConfig,
    auxiliary: Sequence[Example],
    workdir: Path | None,
    progress: Progress = silent,
    watch: Callable[[Step], None] = unwatched,
) -> FittedEncoder:
    # Here, not above: the lexical tier needs neither torch nor its seconds of import.
    from training.encoder.backbone import locate
    from training.encoder.fit import fit_encoder

    return fit_encoder(
        examples,
        config,
        auxiliary=auxiliary,
        backbone=locate(config.backbone),
        workdir=workdir,
        progress=progress,
        watch=watch,
    )


def _measured(
    parts: Mapping[str, LengthModel],
    taus: Sequence[float],
    weights: Sequence[float],
    tau: float,
) -> Iterator[tuple[str, float]]:
    for name, part, weight in zip(parts, taus, weights, strict=True):
        yield f"validation.{name}.tau", part
        yield f"blend.weight.{name}", weight
    yield "validation.model.tau", tau
