"""From an option to a model that serves: sources, and memory that is less than the model's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.attention.cuda import CudaPaged
from engine.core.costs import CostModel
from engine.cuda.gather import Gather
from engine.native.library import Kernels
from serving.engine_load import check_attention, load
from serving.engine_setup import EngineSetup, starter


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 128 positions with 2 layers of 2 key heads of 16: 512 bytes a token in float32."""
    from tests.engine.torch.test_gguf import write_gguf

    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(file)
    return file


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def setup_of(gguf: Path, **changes: Any) -> EngineSetup:
    options = {"device": "cpu", "dtype": "float32", "threads": 1, "kernels": Kernels.TORCH,
               "cost": CostModel(0.03, 0.002, 0.001)}  # fmt: skip
    return EngineSetup(str(gguf), **(options | changes))  # type: ignore[arg-type]


def test_a_gguf_file_is_converted_once_and_served_under_its_name(gguf: Path, cache: Path) -> None:
    first = load(setup_of(gguf), cache)
    (folder,) = cache.glob("tiny-*")
    before = folder.stat().st_mtime_ns
    again = load(setup_of(gguf, name="other"), cache)
    assert folder.stat().st_mtime_ns == before
    assert (first.name, again.name) == ("tiny", "other")


def test_a_context_below_the_models_own_fits_a_small_cache(gguf: Path, cache: Path) -> None:
    setup = setup_of(gguf, max_model_len=48, kv_gib=64 * 512 / 2**30)
    model = load(setup, cache)
    assert model.context_length == 48
    backend = starter(setup, model)(lambda outcome: None)
    try:
        assert backend.context_length == 48
        assert backend.config.capacity == 64
    finally:
        backend.close()


def test_a_context_that_the_cache_cannot_hold_is_refused(gguf: Path, cache: Path) -> None:
    setup = setup_of(gguf, max_model_len=100, kv_gib=64 * 512 / 2**30)
    with pytest.raises(ValueError, match="KV cache holds 64 tokens, fewer than 100; raise kv_gib"):
        starter(setup, load(setup, cache))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_model_len": 129}, "beyond the 128 positions"),
        ({"kv_gib": 1e6}, "kv_gib: 1000000.0 is more than the"),
        ({"kv_gib": 1e-6}, "less than one block"),
    ],
)
def test_more_than_there_is_and_less_than_is_needed(
    gguf: Path, cache: Path, changes: dict[str, Any], said: str
) -> None:
    setup = setup_of(gguf, **changes)
    with pytest.raises(ValueError, match=said):
        starter(setup, load(setup, cache))


@pytest.mark.parametrize(
    ("kernels", "dtype", "refused"),
    [
        (Kernels.AUTO, "bfloat16", True),
        (Kernels.AUTO, "float32", False),
        (Kernels.NATIVE, "float32", True),
        (Kernels.TORCH, "bfloat16", False),
    ],
)
def test_a_gpu_without_a_fitting_kernel_serves_only_who_asks_for_it(
    gguf: Path, cache: Path, kernels: Kernels, dtype: str, refused: bool
) -> None:
    model = load(setup_of(gguf, dtype=dtype), cache)
    slow = CudaPaged(Gather(), torch.device("cpu"), obstacle="it is too old")
    model = replace(model, attention=slow)
    if refused:
        with pytest.raises(ValueError, match="it is too old; --kernels torch serves"):
            check_attention(model, kernels)
    else:
        check_attention(model, kernels)
