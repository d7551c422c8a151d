"""What a machine can do at best, measured, and the bound it sets on a model: a roofline.

Williams, Waterman and Patterson 2009: work takes as long as moving its bytes or computing its
products, whichever is longer. Both rates are the best that was seen, so a bound is no promise.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

#: Bytes that are read at once to time reading: many times any cache.
_READ = 1 << 28
#: Products ``[m, k] x [k, n]``: few rows as a decode step has, many as prefill has.
_SHAPES = ((16, 576, 1536), (64, 576, 1536), (512, 1536, 576), (512, 1024, 1024), (512, 4096, 1024))
#: Times of each, of which the best counts, and products in one of them, at least.
_TIMES, _FLOP = 5, 2e8


@dataclass(frozen=True, slots=True)
class Machine:
    """bandwidth: bytes/s read from memory. flops: floating-point operations/s of products."""

    bandwidth: float
    flops: float

    def seconds(self, nbytes: float, flop: float) -> float:
        """The least time for so many bytes read and so many operations."""
        return max(nbytes / self.bandwidth, flop / self.flops)


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What of a decoder decides how long a step takes.

    parameters: that every token is multiplied with, the output projection included. head: of them,
    those of the output projection, which only tokens that are sampled need. heads, kv_heads,
    head_dim, layers: of attention. itemsize: bytes of one number.
    """

    parameters: int
    head: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    itemsize: int

    @classmethod
    def of(cls, folder: Path, dtype: torch.dtype) -> ModelSize:
        """Of the Hugging Face folder of a Llama-like model: one embedding, tied or not.

        Raises ``ValueError`` when the folder doesn't say all that is needed.
        """
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
            embedding = int(config["vocab_size"]) * hidden
            layers = int(config["num_hidden_layers"])
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"model: {folder} has no config.json of a decoder ({error})") from None
        total = sum(_parameters(file) for file in folder.glob("*.safetensors"))
        if not total:
            raise ValueError(f"model: {folder} holds no safetensors")
        tied = bool(config.get("tie_word_embeddings"))
        return cls(
            parameters=total if tied else total - embedding,
            head=embedding,
            layers=layers,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            itemsize=dtype.itemsize,
        )

    @property
    def kv_bytes(self) -> int:
        """Keys and values of one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.itemsize

    def attention_flop(self, context: float) -> float:
        """Of one token that attends to ``context`` others: scores and the sum they weigh."""
        return 4.0 * context * self.layers * self.heads * self.head_dim


def decode_seconds(machine: Machine, size: ModelSize, batch: int, context: float) -> float:
    """The least time of a step that gives a token to each of ``batch`` requests of ``context``
    tokens: weights are read once for all, keys and values once each."""
    nbytes = size.parameters * size.itemsize + batch * context * size.kv_bytes
    return machine.seconds(nbytes, batch * (2.0 * size.parameters + size.attention_flop(context)))


def prefill_seconds(machine: Machine, size: ModelSize, prompt: float) -> float:
    """The least time for the keys and values of a prompt and its first token, on its own: a token
    attends to half of the prompt on average."""
    flop = prompt * (2.0 * (size.parameters - size.head) + size.attention_flop(prompt / 2))
    return machine.seconds(size.parameters * size.itemsize, flop + 2.0 * size.head)


def serve_seconds(
    machine: Machine, size: ModelSize, requests: int, batch: int, prompt: float, output: int
) -> float:
    """The least time for ``requests`` of ``prompt`` and ``output`` tokens each, ``batch`` at once:
    every prompt, then whole batches from the second token to the last."""
    steps = requests / batch * (output - 1)
    decodes = steps * decode_seconds(machine, size, batch, prompt + output / 2)
    return requests * prefill_seconds(machine, size, prompt) + decodes


#: Multiplies two matrices that are there.
Product = Callable[[], object]


def probe(
    threads: int, dtype: torch.dtype, clock: Callable[[], float] = time.perf_counter
) -> Machine:
    """Measure this machine with ``threads`` threads of torch; two seconds, undisturbed.

    The number of threads of the process is as before afterwards.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return Machine(_bandwidth(clock), _flops(dtype, clock))
    finally:
        torch.set_num_threads(before)


def _bandwidth(clock: Callable[[], float]) -> float:
    best = 0.0
    for dtype in (torch.float32, torch.float64):
        memory = torch.ones(_READ // dtype.itemsize, dtype=dtype)
        best = max(best, _READ / _best(memory.sum, 1, clock))
    return best


@torch.inference_mode()
def _flops(dtype: torch.dtype, clock: Callable[[], float]) -> float:
    best = 0.0
    for m, k, n in _SHAPES:
        flop = 2.0 * m * k * n
        count = max(1, round(_FLOP / flop))
        best = max(
            best, *(count * flop / _best(way, count, clock) for way in _products(m, k, n, dtype))
        )
    return best


def _products(m: int, k: int, n: int, dtype: torch.dtype) -> list[Product]:
    """Ways to multiply a shape; the fastest counts."""
    x, weight = torch.ones(m, k, dtype=dtype), torch.ones(n, k, dtype=dtype)
    ways: list[Product] = [lambda: torch.nn.functional.linear(x, weight)]
    try:  # private operators: a packed weight is read in the order it is needed
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, m)
        call = torch.ops.mkldnn._linear_pointwise
        call(x, packed, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return ways
    return [*ways, lambda: call(x, packed, None, "none", [], "")]


def _best(work: Callable[[], object], count: int, clock: Callable[[], float]) -> float:
    """Least seconds of ``count`` calls."""
    work()
    seconds: list[float] = []
    for _ in range(_TIMES):
        start = clock()
        for _ in range(count):
            work()
        seconds.append(clock() - start)
    return min(seconds)


def _parameters(file: Path) -> int:
    """Numbers in a safetensors file, out of its header: its length in 8 bytes, then JSON."""
    with file.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            size = 1
            for length in tensor["shape"]:
                size *= length
            total += size
    return total
