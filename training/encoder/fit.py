"""Examples -> a trained encoder."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ranker.encoder.network import LengthNetwork
from ranker.encoder.text import EncoderText
from ranker.survival import weighted_quantiles
from ranker.types import LEVELS
from training.encoder import checkpoint
from training.encoder.backbone import load_encoder, load_tokenizer, longest
from training.encoder.config import EncoderConfig
from training.encoder.loop import Loop
from training.encoder.objective import Objective
from training.encoder.precision import autocast_type
from training.encoder.rows import make_rows
from training.encoder.threads import threads
from training.encoder.watch import Step, unwatched
from training.enough import enough
from training.sources import Example, Lengths, Progress, silent

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True, slots=True)
class FittedEncoder:
    """``network`` with its best weights, on the CPU; ``text`` it reads by; ``curve``, the loss of
    each step; ``taus``, ``(step, tau on validation)``; ``validation_tau``, the best of them."""

    network: LengthNetwork
    text: EncoderText
    curve: tuple[float, ...]
    taus: tuple[tuple[int, float], ...]
    validation_tau: float


def fit_encoder(
    examples: Sequence[Example],
    config: EncoderConfig,
    *,
    auxiliary: Sequence[Example] = (),
    backbone: Path,
    workdir: Path | None = None,
    progress: Progress = silent,
    watch: Callable[[Step], None] = unwatched,
) -> FittedEncoder:
    """Fine-tune ``backbone`` on the ``train`` rows and keep what orders the ``validation`` rows
    best; ``test`` is not looked at.

    When ``examples`` are of several served models, the network learns to tell those apart.
    ``auxiliary`` rows are other models' answers, or answers elsewhere: they count less, and each
    model's lengths are moved to the scale of ``examples`` by rank. In ``workdir`` there is a
    checkpoint from which the same call goes on after whatever stopped it, to the same result, bit
    for bit on a CPU; its owner removes it. ``watch`` is told of every step.

    Started by ``accelerate launch`` or ``torchrun``, processes share each batch; every one gets
    the result. CUDA is used when there. Same examples, settings, processes and library versions,
    same weights. Raises ``ValueError`` when there are too few rows, the backbone does not load, or
    the checkpoint is of another run.
    """
    from accelerate import Accelerator

    own, held = enough(examples)
    progress("Preparing the encoder", 0, 1)
    parts = [own, *_by_model([e for e in auxiliary if e.split == "train"])]
    if config.auxiliary_weight == 0.0:
        parts = parts[:1]
    served = sorted({e.model for e in examples})
    models = tuple(served) if len(served) > 1 else ()
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision="no")
    with _reproducible(config, accelerator):
        text, network = _network(backbone, config, models)
        weights = [1.0] + [config.auxiliary_weight] * (len(parts) - 1)
        rows = make_rows(parts, weights, text, models)
        held_rows = make_rows([held], [1.0], text, models)
        shares = np.arange(1, config.thresholds + 1) / (config.thresholds + 1)
        cuts = _quantiles(own, shares.tolist())
        network.start_at(torch.log1p(_quantiles(own, LEVELS)))
        _teach(network, config)
        identity = {
            **{f"encoder.{k}": v for k, v in config.params().items() if k != "checkpoint_every"},
            "training rows": rows.digest(),
            "validation rows": held_rows.digest(),
            "backbone": _digest(network.encoder),
            **_machine(config, accelerator),
        }
        progress("Preparing the encoder", 1, 1)

        def told(step: Step) -> None:
            progress("Training the encoder", step.step, step.steps)
            watch(step)

        course = Loop(
            network,
            Objective(
                config.losses, cuts.to(accelerator.device), network.levels, config.list_width
            ),
            rows,
            held_rows,
            text.pad,
            config,
            accelerator,
            identity,
            workdir / checkpoint.NAME if workdir else None,
            told,
        ).run()
    taus = tuple(course.taus)
    best = max(tau for _, tau in taus)
    return FittedEncoder(network.cpu(), text, tuple(course.losses), taus, best)


def _by_model(rows: Sequence[Example]) -> list[list[Example]]:
    return [[e for e in rows if e.model == model] for model in sorted({e.model for e in rows})]


def _network(
    backbone: Path, config: EncoderConfig, models: tuple[str, ...]
) -> tuple[EncoderText, LengthNetwork]:
    encoder = load_encoder(backbone, train_words=config.train_words)
    most = longest(encoder)
    if most is not None and config.length > most:
        raise ValueError(
            f"encoder.length must be at most {most}, the positions of the backbone, "
            f"got {config.length}"
        )
    text = EncoderText(load_tokenizer(backbone), config.length, config.head_share)
    wide = {"ordinal": config.thresholds, "log_t": 2}
    network = LengthNetwork(
        encoder,
        LEVELS,
        models,
        extra={name: width for name, width in wide.items() if name in config.losses.heads},
        score_head=config.score_head,
        dropout=config.dropout,
    )
    return text, network


def _teach(network: LengthNetwork, config: EncoderConfig) -> None:
    """Fix the heads that no loss teaches: the distribution then stays the marginal one."""
    taught = config.losses.heads
    for name, head in network.heads.items():
        head.requires_grad_(name in taught)
    network.score_shift.requires_grad_(bool(taught - {"quantiles"}))
    network.quantile_shift.requires_grad_("quantiles" in taught)


def _quantiles(rows: Sequence[Example], levels: Sequence[float]) -> torch.Tensor:
    lengths = Lengths.of(rows)
    ones = np.ones(len(rows))
    return torch.from_numpy(weighted_quantiles(lengths.tokens, lengths.censored, ones, levels)).to(
        torch.float32
    )


def _digest(module: nn.Module) -> str:
    sha = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        sha.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        sha.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return sha.hexdigest()[:16]


def _machine(config: EncoderConfig, accelerator: Accelerator) -> dict[str, object]:
    """What of the machine shows in the last bits."""
    kind = autocast_type(config.precision, accelerator.device)
    return {
        "processes": accelerator.num_processes,
        "device": accelerator.device.type,
        "processor": platform.machine(),
        "type": str(kind or torch.float32),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


@contextmanager
def _reproducible(config: EncoderConfig, accelerator: Accelerator) -> Iterator[None]:
    """Chance from the seed, and torch afterwards as it was before."""
    devices = [accelerator.device] if accelerator.device.type == "cuda" else []
    with threads(config.threads), torch.random.fork_rng(devices=devices):
        torch.manual_seed(config.seed)
        yield
