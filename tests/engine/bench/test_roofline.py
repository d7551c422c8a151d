"""Bounds of a machine, re-derived by hand, and the probe that measures it."""

from __future__ import annotations

import json
import struct
from itertools import count
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from engine.bench.roofline import (  # noqa: E402
    Machine,
    ModelSize,
    decode_seconds,
    prefill_seconds,
    probe,
    serve_seconds,
)

MACHINE = Machine(bandwidth=1e9, flops=1e11)
#: 100 parameters a token of which 40 are the head; 2 layers, 4 heads on 2 of keys, of 8 numbers.
SIZE = ModelSize(parameters=100, head=40, layers=2, heads=4, kv_heads=2, head_dim=8, itemsize=2)


def test_a_step_takes_as_long_as_its_bytes_or_its_products_whichever_is_more():
    assert SIZE.kv_bytes == 2 * 2 * 2 * 8 * 2
    assert SIZE.attention_flop(10) == 4 * 10 * 2 * 4 * 8
    nbytes = 100 * 2 + 3 * 10 * SIZE.kv_bytes
    assert decode_seconds(MACHINE, SIZE, 3, 10) == pytest.approx(nbytes / 1e9)
    slow = Machine(bandwidth=1e15, flops=1e6)
    flop = 3 * (2 * 100 + SIZE.attention_flop(10))
    assert decode_seconds(slow, SIZE, 3, 10) == pytest.approx(flop / 1e6)


def test_prefill_multiplies_the_head_once_and_attends_to_half_of_the_prompt():
    slow = Machine(bandwidth=1e15, flops=1e6)
    flop = sum(2 * 60 + SIZE.attention_flop(place) for place in range(1, 51)) + 2 * 40
    # A sum over places, against the closed form: half a token of context apart.
    assert prefill_seconds(slow, SIZE, 50) == pytest.approx(flop / 1e6, rel=0.02)
    assert prefill_seconds(Machine(1e3, 1e15), SIZE, 50) == pytest.approx(200 / 1e3)


def test_a_workload_is_all_prompts_and_then_whole_batches():
    expected = 8 * prefill_seconds(MACHINE, SIZE, 20)
    expected += 2 * 9 * decode_seconds(MACHINE, SIZE, 4, 20 + 5)
    assert serve_seconds(MACHINE, SIZE, 8, 4, 20, 10) == pytest.approx(expected)


def folder_of(path: Path, tied: bool, **extra: int) -> Path:
    config = {
        "vocab_size": 50, "hidden_size": 8, "num_attention_heads": 4, "num_hidden_layers": 2,
        "tie_word_embeddings": tied, **extra,
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    shapes = {"embed": [50, 8], "a": [8, 8], "b": [3]} | ({} if tied else {"head": [50, 8]})
    header = {name: {"dtype": "F32", "shape": shape} for name, shape in shapes.items()}
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_the_size_is_what_a_token_is_multiplied_with(tmp_path: Path, tied: bool):
    size = ModelSize.of(folder_of(tmp_path, tied, num_key_value_heads=2), torch.bfloat16)
    assert size == ModelSize(
        parameters=400 + 64 + 3, head=400, layers=2, heads=4, kv_heads=2, head_dim=2, itemsize=2
    )


def test_a_folder_that_does_not_say_its_size_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        ModelSize.of(tmp_path, torch.float32)
    folder_of(tmp_path, True)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="no safetensors"):
        ModelSize.of(tmp_path, torch.float32)


def test_the_probe_divides_what_it_moved_by_what_its_clock_says():
    ticks = count()
    before = torch.get_num_threads()
    machine = probe(1, torch.float32, clock=lambda: float(next(ticks)))
    assert torch.get_num_threads() == before
    assert machine.bandwidth == float(1 << 28)  # a second by this clock for all of it
    flop = 2.0 * 512 * 4096 * 1024  # the largest shape, once; of smaller ones as many as that
    assert machine.flops == pytest.approx(flop, rel=0.1)
