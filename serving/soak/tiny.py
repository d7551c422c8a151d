"""A model of random weights that speaks bytes: steps take a millisecond or two, on any machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from engine.attention.interface import StepContext
from engine.forward import Forward
from engine.models import Model, adopt
from engine.native.library import Native
from serving.soak.acts import CONTEXT

#: Steps between failures.
FAILS = 400
_END = "</s>"
_CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


class Flaky:
    """A forward of which one step in so many fails half way."""

    def __init__(self, forward: Forward, every: int) -> None:
        self._forward = forward
        self._every = every
        self._steps = 0

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor, step: StepContext
    ) -> torch.Tensor:
        logits = self._forward(ids, positions, rows, step)
        self._steps += 1
        if self._steps % self._every == 0:
            raise RuntimeError("a step that was to fail")
        return logits


def tiny_model(native: Native | None = None) -> Model:
    """Llama of one layer, with a byte-level tokenizer; the same each time. ``native``: kernels that
    run it, torch's when ``None``. One step in :data:`FAILS` fails."""
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), _END]
    made = Tokenizer(BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=made, eos_token=_END)
    tokenizer.chat_template = _CHAT
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                max_position_embeddings=CONTEXT, eos_token_id=tokenizer.eos_token_id,
                bos_token_id=None, pad_token_id=None, tie_word_embeddings=True,
                initializer_range=0.2,
            )
        )  # fmt: skip
    model = adopt(network, tokenizer, "tiny", torch.device("cpu"), native=native)
    return replace(model, forward=Flaky(model.forward, FAILS))
