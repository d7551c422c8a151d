"""What the engine's tokens are held against, and the prompts and schedules they come from."""

import random

import torch

from engine.core.config import AdmissionConfig, AdmissionMode
from engine.core.scheduler import SchedulerConfig

ROOMY = SchedulerConfig(max_num_seqs=32, max_num_batched_tokens=4096, block_size=16, num_blocks=400)
#: Too few blocks for all, and prompts that need several steps.
TIGHT = SchedulerConfig(
    max_num_seqs=32,
    max_num_batched_tokens=40,
    block_size=8,
    num_blocks=60,
    admission=AdmissionConfig(AdmissionMode.OFF),
)


def random_prompts(count, vocabulary, low, high, seed=0):
    draw = random.Random(seed)
    return {
        f"p{i}": [draw.randrange(3, vocabulary) for _ in range(draw.randint(low, high))]
        for i in range(count)
    }


def reference(network, prompts, tokens):
    """Greedy tokens of each prompt generated alone by transformers."""
    out = {}
    for name, ids in prompts.items():
        row = torch.tensor([ids], device=network.device)
        generated = network.generate(
            row, attention_mask=torch.ones_like(row), max_new_tokens=tokens, do_sample=False
        )
        out[name] = generated[0, len(ids) :].tolist()
    return out
