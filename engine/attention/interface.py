"""What the model and the engine ask of attention, whoever computes it.

The model runs without a cache of its own on one packed row of tokens; a function registered with
transformers hands their queries, keys and values to the backend of the step, which stores the keys
and values in its pool and reads what each sequence has there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from engine.attention.pool import KVPool, KVShape
from engine.core.plan import Plan

#: The name to give ``attn_implementation``. Not one that transformers derives a mask for.
NAME = "shortfirst_paged"


@dataclass(frozen=True, slots=True)
class Spec:
    """What attention computes, beside softmax(scale · q kᵀ) v over all positions up to its own.

    ``window``: only the newest so many positions, its own included. ``softcap``: scores become
    ``softcap · tanh(score / softcap)``. ``sinks [heads]``: one more logit per head, without value.
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """One step, packed into T tokens; backends add what their attention needs.

    ``token_ids`` and ``positions``: int64 ``[T]``. ``sampled_rows``: the packed row of each entry
    of ``sampled``, which names a request once, or once more per draft: its last rows in order.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    sampled: tuple[str, ...]
    sampled_rows: torch.Tensor


class Backend(Protocol):
    """Storage and arithmetic of attention on one kind of device.

    ``page``: a block must hold a multiple of so many tokens.
    """

    @property
    def page(self) -> int: ...

    def pool(self, shape: KVShape, dtype: torch.dtype, device: torch.device) -> KVPool:
        """Memory for keys and values, zeroed."""
        ...

    def batch(
        self, plan: Plan, tokens: Mapping[str, Sequence[int]], shape: KVShape, device: torch.device
    ) -> Batch:
        """Pack ``plan``; ``tokens[id]`` is prompt + output + drafts of a request, as far as known.

        Raises ``ValueError`` when the plan is empty, or runs a token that is not known yet.
        """
        ...

    def attend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        step: StepContext,
        layer: int,
        spec: Spec,
    ) -> torch.Tensor:
        """Store ``k`` and ``v [T, kv heads, dim]`` and attend with ``q [T, heads, dim]``; as ``q``.

        Raises ``NotImplementedError`` for a ``spec`` it would compute wrongly.
        """
        ...


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the attention of one forward pass works on.

    ``pool`` and ``batch`` are those that ``backend`` made.
    """

    pool: KVPool
    batch: Batch
    backend: Backend


class Current:
    """The step at hand, where the attention modules of a network find it.

    Not a keyword argument of the forward pass: some families don't pass those down.
    """

    _NAME = "shortfirst_current"

    step: Any = None

    @classmethod
    def of(cls, module: torch.nn.Module) -> Current:
        """That of a network, or of one of its attention modules; made for a network at first."""
        found: Current | None = module.__dict__.get(cls._NAME)
        if found is None:
            found = cls()
            for part in module.modules():
                if part is module or hasattr(part, "layer_idx"):
                    part.__dict__[cls._NAME] = found
        return found


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """``query [1, heads, T, dim]``, ``key`` and ``value [1, kv heads, T, dim]``, rotated, to
    ``[1, T, heads, dim]``.

    Raises ``NotImplementedError`` for what the backend would compute wrongly.
    """
    layer = int(module.layer_idx)  # type: ignore[arg-type]  # nn.Module types attributes loosely
    step = Current.of(module).step
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    spec = Spec(scale, sliding_window or None, softcap, s_aux)
    dim, width = k.shape[-1], v.shape[-1]
    if width < dim:  # latent attention (DeepSeek); keys and values have as much room in the pool
        v = F.pad(v, (0, dim - width))
    elif width > dim:
        q, k = (F.pad(x, (0, width - dim)) for x in (q, k))
    out = step.backend.attend(q, k, v, step, layer, spec)
    return out[..., :width].unsqueeze(0), None
