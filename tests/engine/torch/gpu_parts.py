"""What the tests of a GPU share. They need no file and no network."""

from dataclasses import replace

import pytest
import torch

from engine.core.config import PreemptionConfig, PreemptionMode
from tests.engine.torch.reference import ROOMY, TIGHT

DEVICE = "cuda"
#: On a module: its tests are those of ``tests/gpu.py``.
NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here"),
]
TINY = {"vocab_size": 1000, "layers": 3}
#: The bundled model's shape, under random weights that are spread enough to disagree.
SMOLLM2 = {
    "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9,
    "num_key_value_heads": 3, "head_dim": 64, "max_position_embeddings": 2048,
    "initializer_range": 0.06, "layers": 30,
}  # fmt: skip
SWAP = replace(TIGHT, host_blocks=40, preemption=PreemptionConfig(PreemptionMode.SWAP))
#: With the pages of FlashAttention 2. ``FEW`` are too few for all to grow beyond their first.
PAGES = replace(ROOMY, block_size=256, num_blocks=64)
FEW = replace(PAGES, num_blocks=14, max_num_batched_tokens=500)


def exact_float32():
    """TF32 has 10 bits of mantissa: products in it are not float32's. A generator for a fixture."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def needs_flash(model):
    """Skip where torch has no FlashAttention for this GPU."""
    if not model.attention.kernel.static:
        pytest.skip(f"attention of this GPU is {model.attention.kernel.name}")
