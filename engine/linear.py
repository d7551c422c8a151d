"""Linear layers whose weight oneDNN has reordered once, instead of on every call.

On a CPU ``torch.nn.functional.linear`` repacks the weight for the shape at hand each time; with
the few rows of a decode step that costs as much as the product. The two operators used here are
private to torch, so :func:`supported` tries them before they are relied on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from engine.native.library import Native

#: Rows the weight is laid out for; other row counts work, this one is the fastest.
_ROWS = 16


class PackedLinear(nn.Module):
    """Same result as the ``nn.Linear`` layers it was made of, stacked along the output.

    ``forward``: ``[..., in]`` to ``[..., sum of outs]``. Inference only.
    """

    def __init__(self, *layers: nn.Linear) -> None:
        super().__init__()
        # A bias may be on some alone: Qwen2 has one on q, k and v, and on nothing else.
        weight, self.bias = _stacked(layers)
        self.out_features, self.in_features = weight.shape
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, "none", [], ""
        )
        return out


class NativeLinear(nn.Module):
    """An ``nn.Linear`` computed by compiled C: a row's result has the same bits in any batch."""

    def __init__(self, layer: nn.Linear, native: Native) -> None:
        super().__init__()
        self._native = native
        self.out_features, self.in_features = layer.weight.shape
        self.bias = None if layer.bias is None else layer.bias.detach().contiguous()
        weight = layer.weight
        size = native.packed_size(self.out_features, self.in_features, weight.dtype)
        self._packed = native.memory(size)
        native.pack(weight, self._packed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features)
        out = self._native.linear(rows, self._packed, self.bias, self.out_features)
        return out.view(*x.shape[:-1], self.out_features)


def supported(dtype: torch.dtype) -> bool:
    """Whether this torch can pack linears of ``dtype`` on this CPU, found by trying."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    try:
        with torch.inference_mode():
            layer = nn.Linear(64, 48, bias=True, dtype=dtype)
            x = torch.linspace(-1, 1, 3 * 64).to(dtype).view(3, 64)
            packed, plain = PackedLinear(layer)(x), layer(x)
        tolerance = 1e-4 if dtype == torch.float32 else 2e-2
        return torch.allclose(packed.float(), plain.float(), atol=tolerance, rtol=tolerance)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False


def pack(model: nn.Module, native: Native | None = None) -> None:
    """Replace every ``nn.Linear`` inside ``model``, by ones of ``native`` if given.

    A weight that other modules share (a tied embedding) stays where it is beside the packed copy.
    """
    for name, module in list(model.named_modules()):
        if type(module) is not nn.Linear:
            continue
        parent_name, _, child = name.rpartition(".")
        packed = PackedLinear(module) if native is None else NativeLinear(module, native)
        setattr(model.get_submodule(parent_name), child, packed)


def stack(layers: Sequence[nn.Linear], *, pack: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """One linear that gives the outputs of ``layers`` side by side; packed, or a plain one."""
    if pack:
        return PackedLinear(*layers)
    if len(layers) == 1:
        return layers[0]
    weight, bias = _stacked(layers)
    plain = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    plain.weight = nn.Parameter(weight, requires_grad=False)
    # The layers keep theirs as parts of it: a GPU has no room for every weight twice.
    for layer, part in zip(
        layers, torch.split(weight, [x.out_features for x in layers]), strict=True
    ):
        layer.weight = nn.Parameter(part, requires_grad=False)
    if bias is not None:
        plain.bias = nn.Parameter(bias, requires_grad=False)
    return plain


def _stacked(layers: Sequence[nn.Linear]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weights and biases one after the other; zeros for a layer without bias beside one with."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    if all(layer.bias is None for layer in layers):
        return weight, None
    return weight, torch.cat(
        [
            weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias.detach()
            for layer in layers
        ]
    )
