"""What a step would cost on a machine that is not here: computed from data sheets, not measured."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.costs import CostModel


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A dense decoder in 16-bit numbers. ``kv_heads``: heads whose keys and values are kept."""

    name: str
    parameters: float
    layers: int
    hidden: int
    kv_heads: int
    head_dim: int

    @property
    def weight_bytes(self) -> float:
        return 2.0 * self.parameters

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values of one token, over all layers."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device. memory: bytes. bandwidth: bytes/s of its memory. flops: dense 16-bit FLOP/s.
    link: bytes/s to a peer, one way. bus: bytes/s to the host, one way."""

    name: str
    memory: float
    bandwidth: float
    flops: float
    link: float
    bus: float


#: Meta's model cards: 8.03 and 70.6 billion parameters, grouped-query attention with 8 KV heads.
LLAMA3_8B = ModelShape("Llama-3-8B", 8.03e9, 32, 4096, 8, 128)
LLAMA3_70B = ModelShape("Llama-3-70B", 70.6e9, 80, 8192, 8, 128)
#: NVIDIA's data sheet of the A100 80GB SXM: 2,039 GB/s, 312 TFLOP/s, NVLink 300 GB/s each way,
#: PCIe 4.0 x16 (32 GB/s, of which copies reach about 25).
A100 = Accelerator("A100-80G", 80 * 2.0**30, 2.039e12, 312e12, 300e9, 25e9)
#: NVIDIA's data sheet of the H100 80GB SXM: 3,350 GB/s, 989 TFLOP/s without sparsity, NVLink 450
#: GB/s each way, PCIe 5.0 x16 (64 GB/s, of which copies reach about 50).
H100 = Accelerator("H100-80G", 80 * 2.0**30, 3.35e12, 989e12, 450e9, 50e9)

#: Shares of the data sheet's bandwidth and FLOP/s that good kernels reach.
_BANDWIDTH_SHARE, _FLOP_SHARE = 0.8, 0.5
#: Share of memory an engine may use, and bytes of it that activations take on each device.
_MEMORY_SHARE, _ACTIVATIONS = 0.9, 2e9
#: Seconds that one all-reduce of a small tensor takes at least.
_REDUCE = 20e-6


@dataclass(frozen=True, slots=True)
class Derived:
    """``source`` tells the whole derivation."""

    cost: CostModel
    num_blocks: int
    source: str


def derive(
    model: ModelShape, device: Accelerator, count: int, *, seqs: int, tokens: int, block_size: int
) -> Derived:
    """Cost model and memory of ``model`` split over ``count`` devices (tensor parallel).

    A roofline (Williams et al. 2009): a step takes as long as reading the weights or as computing
    its tokens, whichever is longer. The cost model is linear, so decodes get the slope of the chord
    from an empty step to one of ``seqs`` decodes, prefill that to a chunk of ``tokens``. Each
    device reads its share of keys and values of every token of context, and swaps it over its own
    bus. Two all-reduces per layer when split.

    Raises ``ValueError`` when the weights leave no room for keys and values.
    """
    bandwidth = count * device.bandwidth * _BANDWIDTH_SHARE
    flops = count * device.flops * _FLOP_SHARE
    read = model.weight_bytes / bandwidth
    compute = 2.0 * model.parameters / flops
    reduces = 2 * model.layers if count > 1 else 0
    # A ring moves each byte 2(n - 1)/n times.
    traffic = reduces * 2 * model.hidden * 2 * (count - 1) / count / device.link
    cost = CostModel(
        base=read + reduces * _REDUCE,
        decode=max(0.0, compute - read / seqs) + traffic,
        prefill=max(0.0, compute - read / tokens) + traffic,
        context=model.kv_bytes / bandwidth,
        swap=model.kv_bytes / (count * device.bus),
    )
    room = count * (device.memory * _MEMORY_SHARE - _ACTIVATIONS) - model.weight_bytes
    num_blocks = int(room // (model.kv_bytes * block_size))
    if num_blocks < 1:
        raise ValueError(f"{model.name} leaves no KV memory on {count} x {device.name}")
    source = (
        f"Computed, not measured: {model.name}, {model.weight_bytes / 1e9:.1f} GB of 16-bit "
        f"weights and {model.kv_bytes:,} bytes of keys and values a token, on {count} x "
        f"{device.name} ({device.bandwidth / 1e9:,.0f} GB/s at {_BANDWIDTH_SHARE:.0%}, "
        f"{device.flops / 1e12:.0f} TFLOP/s at {_FLOP_SHARE:.0%}, bus {device.bus / 1e9:.0f} "
        f"GB/s). base: reading the weights once, {read * 1e3:.2f} ms"
        + (f", and {reduces} all-reduces of {_REDUCE * 1e6:.0f} us. " if reduces else ". ")
        + f"A token takes {compute * 1e3:.4f} ms to compute; decode and prefill are the slopes of "
        f"the roofline's chords to {seqs} decodes and to a chunk of {tokens} tokens. context: "
        f"reading a token's keys and values. swap: moving them over the bus. KV memory: "
        f"{_MEMORY_SHARE:.0%} of the devices less weights and {_ACTIVATIONS / 1e9:.0f} GB each "
        f"for activations, {room / 1e9:.0f} GB."
    )
    return Derived(cost, num_blocks, source)
