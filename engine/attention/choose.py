"""Which attention backend serves a device."""

from __future__ import annotations

import torch

from engine.attention import cuda
from engine.attention.interface import Backend
from engine.attention.native import NativePaged
from engine.attention.torch_paged import TorchPaged
from engine.native.library import DTYPES, Native


def choose(
    device: torch.device,
    dtype: torch.dtype,
    native: Native | None = None,
    heads: tuple[int, int, int] = (1, 1, 64),
) -> Backend:
    """The fastest backend that computes ``dtype`` on ``device``; ``native`` where it can.

    ``heads``: query heads, key heads and head dimension, which kernels of GPUs are tried with.
    """
    if device.type == "cuda":
        return cuda.choose(device, dtype, *heads)
    if native is not None and device.type == "cpu" and dtype in DTYPES:
        return NativePaged(native)
    return TorchPaged()
