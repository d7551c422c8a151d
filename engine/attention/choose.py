"""Which attention backend serves a device."""

from __future__ import annotations

import torch

from engine.attention.interface import Backend
from engine.attention.torch_paged import TorchPaged


def choose(device: torch.device, dtype: torch.dtype) -> Backend:
    """The fastest backend that computes ``dtype`` on ``device``."""
    return TorchPaged()
