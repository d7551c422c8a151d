"""A check, at load time, that a network under paged attention computes what it did without."""

from __future__ import annotations

from typing import Any

import torch

from engine.architecture import text_config
from engine.attention.interface import NAME, Backend, StepContext
from engine.attention.pool import KVShape
from engine.core.plan import Plan, Step
from engine.forward import Forward, Transformers
from engine.probe import Geometry

_LENGTHS = (9, 6)
_BLOCK = 4
#: Relative error of the logits, by bits of the format. Wrong attention gives errors near 1.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


def check_network(network: Any, backend: Backend, geometry: Geometry) -> torch.Tensor:
    """Run two short sequences whole and in pieces, and compare; the logits to compare with.

    One piece is a chunk behind another, one a decode beside a prompt. Finds architectures that
    don't use the attention interface, or keep state that is not keys and values.

    Raises ``ValueError`` when the results differ, or the network cannot be run this way at all.
    """
    kind = network.config.model_type
    before = network.config._attn_implementation
    try:
        network.set_attn_implementation("eager")
        expected = torch.cat(
            [_whole(network, ids) for ids in _tokens(text_config(network.config)).values()]
        )
        network.set_attn_implementation(NAME)
        same, error = matches(Transformers(network), network, backend, geometry, expected)
    except Exception as problem:
        raise ValueError(
            f"model: {kind} cannot run in this engine ({type(problem).__name__}: {problem})"
        ) from problem
    finally:
        network.set_attn_implementation(before)
    if not same:
        raise ValueError(
            f"model: {kind} gives other results under paged attention (relative error "
            f"{error:.2g}); its architecture is not supported"
        )
    return expected


def matches(
    forward: Forward,
    network: Any,
    backend: Backend,
    geometry: Geometry,
    expected: torch.Tensor,
) -> tuple[bool, float]:
    """Whether ``forward`` gives the ``expected`` logits of ``network``, and its relative error."""
    got = _in_pieces(forward, network, backend, geometry)
    error = float((got - expected).norm() / expected.norm())
    return error <= _TOLERANCE[network.dtype], error


def _tokens(config: Any) -> dict[str, list[int]]:
    return {
        str(i): [(7 * i + 13 * j + 5) % config.vocab_size for j in range(length)]
        for i, length in enumerate(_LENGTHS)
    }


@torch.inference_mode()
def _whole(network: Any, ids: list[int]) -> torch.Tensor:
    row = torch.tensor([ids], device=network.device)
    logits: torch.Tensor = network(input_ids=row, use_cache=False).logits
    return logits[0, -1:].float()


@torch.inference_mode()
def _in_pieces(
    forward: Forward, network: Any, backend: Backend, geometry: Geometry
) -> torch.Tensor:
    block = max(_BLOCK, backend.page)
    shape = KVShape(geometry.layers, geometry.kv_heads, geometry.head_dim, 6, block)
    pool = backend.pool(shape, network.dtype, network.device)
    tables = {"0": (5, 0, 3), "1": (2, 4)}
    first, second = _LENGTHS
    plans = (
        (Step("0", 0, 5, tables["0"], False),),
        (Step("0", 5, first - 6, tables["0"], False),),
        (Step("0", first - 1, 1, tables["0"], True), Step("1", 0, second, tables["1"], True)),
    )
    tokens = _tokens(text_config(network.config))
    for number, steps in enumerate(plans):
        work = backend.batch(Plan(number, steps), tokens, shape, network.device)
        rows = work.sampled_rows if work.sampled else work.token_ids.new_zeros(1)
        context = StepContext(pool, work, backend)
        logits = forward(work.token_ids, work.positions, rows, context)
    return logits.float()
