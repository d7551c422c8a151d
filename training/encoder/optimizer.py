"""AdamW, its rates as a function of the step, its state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from training.encoder.config import EncoderConfig

_STATE = ("step", "exp_avg", "exp_avg_sq")


def make_optimizer(network: nn.Module, config: EncoderConfig) -> torch.optim.AdamW:
    """Over what may change in ``network``: lower rates in its encoder, decay on matrices alone."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            inside = name.startswith("encoder.")
            rate = config.learning_rate if inside else config.head_learning_rate
            decay = config.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": group, "lr": rate, "peak": rate, "weight_decay": decay}
            for (rate, decay), group in groups.items()
        ],
        fused=True,
    )


def set_rates(optimizer: torch.optim.Optimizer, step: int, steps: int, warm_up: float) -> None:
    """Rates of ``step`` (from 0): up to the peak over ``warm_up`` of all steps, then down to 0."""
    rise = min(1.0, (step + 1) / max(1.0, warm_up * steps))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * rise * (1.0 - step / steps)


def state_tensors(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's memory of each parameter, as ``name/quantity``."""
    return {
        f"{name}/{quantity}": optimizer.state[parameter][quantity]
        for name, parameter in network.named_parameters()
        if parameter in optimizer.state
        for quantity in _STATE
    }


def restore_state(
    network: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what :func:`state_tensors` gave."""
    for name, parameter in network.named_parameters():
        if f"{name}/step" in tensors:
            optimizer.state[parameter] = {
                quantity: tensors[f"{name}/{quantity}"].to(parameter.device).clone()
                for quantity in _STATE
            }
