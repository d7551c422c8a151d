"""Small models of every family that becomes a program, and steps of every kind to run them in."""

import random

import torch

from engine.attention.interface import StepContext
from engine.core.plan import Plan, Step
from engine.fastest import fastest
from engine.models import kv_shape
from engine.probe import probe

CPU = torch.device("cpu")
TABLE = 10
FAMILIES = {
    "llama": {},
    "llama, llama3 angles, biases": {
        "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
                            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 64}},
    "llama, a window that it does not heed": {"sliding_window": 12},
    "mistral": {"sliding_window": None},
    "mistral, window": {"sliding_window": 12},
    "qwen2": {},
    "qwen3": {},
    "gemma": {},
    "gemma2": {"sliding_window": 12, "query_pre_attn_scalar": 24},
}  # fmt: skip


def network(family, dtype=torch.float32):
    """A small one with odd sizes and weights of no special values."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family.partition(",")[0], vocab_size=1003, hidden_size=150, intermediate_size=388,
        num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=24,
        max_position_embeddings=4096, initializer_range=0.15, eos_token_id=2, bos_token_id=1,
        pad_token_id=2, **FAMILIES[family],
    )  # fmt: skip
    made = AutoModelForCausalLM.from_config(config).to(dtype).eval().requires_grad_(False)
    for name, weight in made.named_parameters():
        if weight.ndim == 1:
            weight.normal_(0.0 if name.endswith("bias") else 1.0, 0.2)
    return made


class Runs:
    """Logits of every position, whatever the steps that gave them."""

    def __init__(self, forward, attention, shape, prompts):
        self.forward, self.attention, self.shape = forward, attention, shape
        self.prompts = prompts
        self.pool = attention.pool(shape, torch.float32, CPU)

    @classmethod
    def of(cls, made, native, prompts, forward=None):
        way = fastest(made, probe(made), native)
        shape = kv_shape(probe(made), TABLE * (len(prompts) + 1), 16)
        runs = cls(forward or way.forward, way.attention, shape, prompts)
        runs.pool = way.attention.pool(shape, made.dtype, CPU)
        return runs

    def table(self, i):
        return tuple(range(TABLE * i, TABLE * (i + 1)))

    @torch.inference_mode()
    def logits(self, rounds):
        """``{sequence: logits [length, vocabulary]}``; each step asks for all of its rows."""
        found = {i: [] for i in range(len(self.prompts))}
        tokens = {str(i): ids for i, ids in enumerate(self.prompts)}
        for number, parts in enumerate(rounds):
            steps = [
                # As if all were drafts: then the logits behind each are wanted.
                Step(str(i), first, end - first, self.table(i), True, end - first - 1)
                for i, (first, end) in parts.items()
            ]
            batch = self.attention.batch(Plan(number, tuple(steps)), tokens, self.shape, CPU)
            logits = self.forward(
                batch.token_ids, batch.positions, batch.sampled_rows,
                StepContext(self.pool, batch, self.attention),
            ).clone()  # fmt: skip
            for row, name in enumerate(batch.sampled):
                found[int(name)].append(logits[row].float())
        return {i: torch.stack(rows) for i, rows in found.items()}


def prompts_of(lengths, vocabulary=1003):
    draw = random.Random(0)
    return [[draw.randrange(3, vocabulary) for _ in range(n)] for n in lengths]


def whole(lengths):
    return [{i: (0, n) for i, n in enumerate(lengths)}]


def one_by_one(lengths):
    return [{i: (0, n - 1)} for i, n in enumerate(lengths) if n > 1] + [
        {i: (n - 1, n) for i, n in enumerate(lengths)}
    ]


def ragged(lengths, seed=0):
    """Chunks of random sizes, some sequences in each round."""
    draw, done = random.Random(seed), [0] * len(lengths)
    rounds = []
    while any(d < n for d, n in zip(done, lengths, strict=True)):
        parts = {}
        for i, n in enumerate(lengths):
            if done[i] < n and draw.random() < 0.7:
                end = min(n, done[i] + draw.choice((1, 1, 2, 5, 17, 40)))
                parts[i] = (done[i], end)
                done[i] = end
        rounds += [parts] if parts else []
    return rounds
