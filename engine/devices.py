"""Which device and number format to use when the caller leaves it open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(device: str | torch.device) -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU. Raises ``ValueError``."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu or cuda, got {device!r}") from error
    if resolved.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {device!r}")
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but this torch sees no CUDA device; use auto or cpu")
    return resolved


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """``auto`` is the narrowest format that ``device`` multiplies. Raises ``ValueError``."""
    if isinstance(dtype, torch.dtype):
        if dtype not in _DTYPES.values():
            raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype}")
        return dtype
    if dtype != "auto":
        if dtype not in _DTYPES:
            raise ValueError(f"dtype must be auto, {', '.join(_DTYPES)}, got {dtype!r}")
        return _DTYPES[dtype]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(False) else torch.float16
    return torch.bfloat16 if cpu_multiplies_bf16() else torch.float32


def cpu_multiplies_bf16() -> bool:
    """Whether this CPU has bfloat16 products (AVX512-BF16 or AMX), as far as torch can tell."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, check, bool)()) for check in checks)


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on ``device``; ``None`` where the system doesn't say.

    On a CPU, what Linux deems available, within the limit of this process's control group.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / f"memory.{name}").read_text() for name in ("max", "current"))
        found += [max(0, int(limit) - int(used))] if limit.strip() != "max" else []
    except (OSError, ValueError, IndexError):
        pass  # another system, or no control groups: what was found has to do
    return min(found, default=None)


def check_room(network: Any, device: torch.device) -> None:
    """Raise ``ValueError`` when the weights of ``network``, on the CPU now, don't fit a GPU."""
    if device.type != "cuda":
        return
    needed = sum(x.numel() * x.element_size() for x in network.parameters() if not x.is_cuda)
    free = free_memory(device)
    if free is not None and needed > free:
        raise ValueError(
            f"device: the weights take {needed / 2**30:.1f} GiB and {device} has "
            f"{free / 2**30:.1f} GiB free; take a narrower dtype, another device, or a smaller "
            "model"
        )
