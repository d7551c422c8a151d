"""Numbers of the host as tensors of a device, without waiting for what the device is at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray


def placed(
    values: Sequence[float] | NDArray[Any], device: torch.device, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """``values`` on ``device``; of type ``dtype``, or as ``torch.as_tensor`` would have it.

    Copies from memory that is not pinned wait until the GPU has done all it was given.
    """
    made = torch.as_tensor(values, dtype=dtype)
    if device.type != "cuda":
        return made
    return made.pin_memory().to(device, non_blocking=True)
