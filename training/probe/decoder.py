"""The decoder that a probe reads with: found, loaded, cut after a layer, asked for its states."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranker.encoder.probe import at_end, causal
from ranker.encoder.text import padded
from training.encoder.backbone import load_tokenizer
from training.encoder.backbone import locate as locate_encoder
from training.encoder.batches import sorted_batches

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

#: Stands for the prompt in a chat template: a character of no text, for private use.
_PROMPT = "\ue000"
#: For templates that name the day: a probe is one function of its prompt, whatever the date.
_DAY = "26 Jul 2024"
_MOST_BYTES = (2 << 30) - (64 << 20)  # of a protocol buffer, which ONNX is, with room for the rest


@contextlib.contextmanager
def located(name: str, workdir: Path | None = None) -> Iterator[Path]:
    """The directory of a decoder while it is needed. Empty: the bundled model, converted in
    ``workdir`` or for the time being, which takes seconds and half a GB. Else as
    :func:`training.encoder.backbone.locate`."""
    if name:
        yield locate_encoder(name, "probe.backbone")
        return
    import tempfile

    from engine.bundled import prepare_bundled

    if workdir is not None:
        yield prepare_bundled(workdir)
        return
    with tempfile.TemporaryDirectory(prefix="shortfirst-decoder-") as scratch:
        yield prepare_bundled(Path(scratch))


def load_decoder(folder: Path) -> PreTrainedModel:
    """The decoder of ``folder`` in single precision, without its vocabulary head and fixed.

    No code of the folder is run and no pickle is read. Raises ``ValueError`` when there is none, or
    it does not keep its layers where Llama does (Mistral, Qwen, Gemma, Phi-3, SmolLM and others).
    """
    from transformers import AutoModel

    from engine.gguf_source import quiet

    try:
        with quiet():
            decoder: PreTrainedModel = AutoModel.from_pretrained(
                folder,
                dtype=torch.float32,
                use_safetensors=True,
                attn_implementation="eager",
                trust_remote_code=False,
            )
    except Exception as error:  # of whatever a foreign file brings to light
        raise ValueError(
            f"probe.backbone {folder}: no decoder that transformers can load from safetensors "
            f"({_first(error)})"
        ) from None
    parts: Any = decoder
    if not (hasattr(parts, "layers") and hasattr(parts, "norm")):
        raise ValueError(
            f"probe.backbone: of a {decoder.config.model_type} it is not known where the layers "
            f"are; a decoder built like Llama is needed"
        )
    decoder.requires_grad_(False)
    decoder.train(False)
    return decoder


def layers(decoder: PreTrainedModel) -> int:
    """How many of its layers an artifact can hold: with the words, two gigabytes."""
    parts: Any = decoder
    words = _bytes(decoder) - sum(map(_bytes, parts.layers))
    room = (_MOST_BYTES - words) // max(map(_bytes, parts.layers))
    return max(0, min(len(parts.layers), room))


def most_tokens(decoder: PreTrainedModel) -> int | None:
    """The longest text of which it sees all at every layer; ``None`` when it does not say."""
    config = decoder.config
    found = [getattr(config, "max_position_embeddings", None)]
    kinds = getattr(config, "layer_types", None)
    if kinds is None or any("full" not in kind for kind in kinds):
        found.append(getattr(config, "sliding_window", None))
    return min((int(n) for n in found if n), default=None)


def cut(decoder: PreTrainedModel, layer: int) -> None:
    """Let ``decoder`` end after its ``layer``-th layer, for good, with its last norm after it."""
    parts: Any = decoder
    parts.layers = parts.layers[:layer]
    parts.config.num_hidden_layers = layer


def chat_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of ``folder``, which puts a prompt into the first turn of its chat template, up
    to where the answer begins. Without a template it stays as it is. Raises ``ValueError`` when
    there is no fast tokenizer, or the template fails or does not name the prompt once."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer = load_tokenizer(folder)
    turn = [{"role": "user", "content": _PROMPT}]
    try:
        written = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if not written.chat_template:
            return tokenizer
        text = written.apply_chat_template(
            turn, tokenize=False, add_generation_prompt=True, date_string=_DAY
        )
    except Exception as error:  # a template is a program
        raise ValueError(
            f"probe.backbone {folder}: tokenizer or chat template fail ({_first(error)})"
        ) from None
    before, *after = str(text).split(_PROMPT)
    if len(after) != 1:
        raise ValueError(f"probe.backbone {folder}: the chat template must name the prompt once")
    frame = []
    for name, part in (("before", before), ("after", after[0])):
        found = tokenizer.encode(part, add_special_tokens=False)
        if found.ids:
            frame.append({"id": name, "ids": found.ids, "tokens": found.tokens})
    names = [str(part["id"]) for part in frame]
    order = [*(n for n in names if n == "before"), "$A", *(n for n in names if n == "after")]
    tokenizer.post_processor = TemplateProcessing(single=order, special_tokens=frame)
    return tokenizer


@torch.no_grad()
def states(
    decoder: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    at: Sequence[int],
    *,
    batch: int,
    kind: torch.dtype | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> NDArray[np.float16]:
    """After each layer of ``at`` (from 1, ascending), as the last norm leaves them, at the last
    token of each of ``rows``: ``[rows, layers, width]``. ``kind``: what to compute in."""
    parts: Any = decoder
    device = decoder.device
    found = np.zeros((len(rows), len(at), int(decoder.config.hidden_size)), np.float16)
    done = 0
    with _Listener(parts, at) as heard:
        for index in sorted_batches(np.array([len(row) for row in rows]), batch):
            # What fills up is never looked at, whichever token it is.
            ids, mask = (
                torch.from_numpy(a).to(device) for a in padded([rows[i] for i in index], 0)
            )
            with torch.autocast(device.type, kind or torch.bfloat16, enabled=kind is not None):
                heard.mask = mask
                decoder(input_ids=ids, attention_mask=causal(ids), use_cache=False)
            found[index] = torch.stack(heard.states, dim=1).cpu().numpy().astype(np.float16)
            heard.states.clear()
            done += len(index)
            progress(done)
    return found


def _bytes(part: torch.nn.Module) -> int:
    return sum(4 * weight.numel() for weight in part.parameters())


def _first(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


class _Listener:
    """Hears what comes out of layers and keeps the last token's, so that a batch is not kept."""

    def __init__(self, decoder: Any, at: Sequence[int]) -> None:
        self.mask = torch.empty(0)
        self.states: list[Tensor] = []
        self._norm = decoder.norm
        self._hooks = [decoder.layers[n - 1].register_forward_hook(self._hear) for n in at]

    def __enter__(self) -> _Listener:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _hear(self, module: object, given: object, out: Any) -> None:
        whole = out[0] if isinstance(out, tuple) else out
        self.states.append(self._norm(at_end(whole, self.mask)).float())
