"""A model of random weights that speaks bytes: steps take a millisecond or two, on any machine."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from engine.models import Model, adopt
from engine.native.library import Native
from serving.soak.acts import CONTEXT

_END = "</s>"
_CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def tiny_model(native: Native | None = None) -> Model:
    """Llama of one layer, with a byte-level tokenizer; the same each time. ``native``: kernels that
    run it, torch's when ``None``."""
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
    return adopt(network, tokenizer, "tiny", torch.device("cpu"), native=native)
