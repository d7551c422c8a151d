"""Where bfloat16 pays."""

from __future__ import annotations

import torch


def autocast_type(precision: str, device: torch.device) -> torch.dtype | None:
    """The type to compute in, ``None`` for single precision: ``bf16``, ``fp32`` or, with ``auto``,
    bfloat16 where the processor multiplies matrices in it."""
    if precision == "fp32" or (precision == "auto" and not _has_bf16(device)):
        return None
    return torch.bfloat16


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    has = torch.cpu.get_capabilities()
    return bool(has.get("amx_bf16") or has.get("avx512_bf16") or has.get("bf16"))
