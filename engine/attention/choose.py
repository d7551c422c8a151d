"""Which attention backend serves a device."""

from __future__ import annotations

import torch

from engine.attention.interface import Backend
from engine.attention.native import NativePaged
from engine.attention.torch_paged import TorchPaged
from engine.native.library import DTYPES, Native


def choose(device: torch.device, dtype: torch.dtype, native: Native | None = None) -> Backend:
    """The fastest backend that computes ``dtype`` on ``device``; ``native`` where it can."""
    if native is not None and device.type == "cpu" and dtype in DTYPES:
        return NativePaged(native)
    return TorchPaged()
