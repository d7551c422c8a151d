"""FlashAttention over pages, as torch ships and dispatches it (``torch.nn.attention.varlen``).

Read in torch 2.13. FlashAttention 2 is built in, for compute capability 8.0 and newer, float16 and
bfloat16, a head dimension that is a multiple of 8 up to 256, and pages of 256 tokens or a multiple
(csrc/flash_api.cpp and test/test_varlen_attention.py of torch). FlashAttention 3 and 4 take its
place where torch can activate them: Hopper and Blackwell, any page size, no ``cu_seq_k`` beside a
block table.

Keys are never split between blocks of threads: with pages, FlashAttention 2 then leaves rows
unwritten (pytorch#194167) or gives NaN (torchtitan#3235). It also makes a sequence's result
independent of those beside it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch

from engine.attention.interface import Spec
from engine.cuda.kernel import Pages

_NEEDED = frozenset(
    ("scale", "window_size", "enable_gqa", "seqused_k", "block_table", "num_splits", "return_aux")
)


@dataclass(frozen=True, slots=True)
class Varlen:
    """A :class:`~engine.cuda.kernel.Kernel`.

    ``version``: of FlashAttention, the one that is active. ``grouped``: a sequence of one row is
    run without a causal mask, which it does not need; FlashAttention 2 then takes the query heads
    of one key head together, and reads keys once for all of them. ``sinks``: whether the sums it
    gives beside its results, which sinks are added to, can be relied on.
    """

    version: int = 2
    grouped: bool = True
    sinks: bool = True

    @property
    def name(self) -> str:
        how = "" if self.grouped or self.version > 2 else ", query heads one by one"
        return f"FlashAttention {self.version} of torch {torch.__version__}{how}"

    @property
    def page(self) -> int:
        return {2: 256, 3: 64}.get(self.version, 128)

    @property
    def static(self) -> bool:
        return True

    def refuses(self, spec: Spec) -> str:
        if spec.softcap is not None:
            return "soft-capped attention scores"
        return "" if self.sinks or spec.sinks is None else "attention sinks"

    def __call__(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        pages: Pages,
        spec: Spec,
    ) -> torch.Tensor:
        from torch.nn.attention.varlen import AuxRequest, varlen_attn

        if spec.window is not None:
            window = (spec.window - 1, 0)
        else:
            together = self.grouped and pages.most_rows == 1 and spec.sinks is None
            window = (-1, -1) if together else (-1, 0)
        found = varlen_attn(
            q,
            keys,
            values,
            pages.firsts,
            pages.ends if self.version == 2 else None,
            pages.most_rows,
            pages.most_used,
            return_aux=AuxRequest(lse=True) if spec.sinks is not None else None,
            scale=spec.scale,
            window_size=window,
            enable_gqa=q.shape[1] != keys.shape[2],
            seqused_k=pages.used,
            block_table=pages.table,
            num_splits=1,
        )
        if spec.sinks is None:
            assert isinstance(found, torch.Tensor)
            return found
        out, lse = found
        # A sink adds to the denominator alone. Rows come last, whatever the docstring says.
        share = torch.sigmoid(lse - spec.sinks.float()[:, None])
        return (out * share.t().unsqueeze(-1)).to(q.dtype)


def obstacle(device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    """Why torch's FlashAttention cannot serve such a model, and what would help; empty: it can."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return f"torch {torch.__version__} has no varlen_attn; install torch 2.13"
    missing = _NEEDED - inspect.signature(varlen_attn).parameters.keys()
    if missing:
        return (
            f"varlen_attn of torch {torch.__version__} takes no {', '.join(sorted(missing))}; "
            "install torch 2.13"
        )
    if dtype not in (torch.float16, torch.bfloat16):
        return f"FlashAttention does not compute {dtype}; use bfloat16 or float16"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"FlashAttention needs compute capability 8.0, this GPU has {major}.{minor}"
    if head_dim % 8 or head_dim > 256:
        return f"FlashAttention takes head dimensions in eights up to 256, not {head_dim}"
    return ""


def activate(device: torch.device) -> int:
    """Put the newest FlashAttention that is installed and fits ``device`` in place; its version.

    FlashAttention 3 is the module ``flash_attn_interface`` (Hopper), 4 is ``flash_attn.cute``
    (Blackwell). For the whole process: torch keeps one at a time.
    """
    from torch.nn.attention import activate_flash_attention_impl, current_flash_attention_impl

    wanted = {9: "FA3", 10: "FA4"}.get(torch.cuda.get_device_capability(device)[0])
    active = current_flash_attention_impl()
    if active is None and wanted is not None:
        try:
            activate_flash_attention_impl(wanted)
        except (ImportError, RuntimeError, ValueError, OSError, AttributeError):
            return 2
        active = wanted
    return int(active[2:]) if active else 2


def restore() -> None:
    """Back to the FlashAttention that torch was built with."""
    from torch.nn.attention import current_flash_attention_impl, restore_flash_attention_impl

    if current_flash_attention_impl() is not None:
        restore_flash_attention_impl()
