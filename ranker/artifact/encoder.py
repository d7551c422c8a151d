"""Files of an encoder, or of a probe: the network in ONNX, the tokenizer in its own JSON."""

from __future__ import annotations

from ranker.artifact import onnx
from ranker.artifact.content import Bundle, Files, json_bytes
from ranker.encoder.model import EncoderModel
from ranker.encoder.text import EncoderText
from ranker.types import LEVELS

_SETTINGS, _NETWORK, _TOKENIZER = "encoder.json", "network.onnx", "tokenizer.json"
_LONGEST = 1 << 16
_TRIAL = ("a", "\N{SNOWMAN}")  # a tokenizer may be whole but for its word for what it does not know


def write(model: EncoderModel) -> Files:
    text = model.text
    settings = {
        "length": text.length,
        "head_share": text.head_share,
        "pad": text.pad,
        "separated": text.separated,
        "models": list(model.models),
        "levels": list(LEVELS),
    }
    return {
        _SETTINGS: json_bytes(settings),
        _NETWORK: model.network,
        _TOKENIZER: text.tokenizer.to_str().encode(),
    }


def read(bundle: Bundle, kind: type[EncoderModel]) -> EncoderModel:
    from tokenizers import Tokenizer

    settings = bundle.json(_SETTINGS)
    if settings.get("levels") != list(LEVELS):
        bundle.refuse(_SETTINGS, "made for other levels; train the ranker again")
    models = settings.get("models")
    if not isinstance(models, list) or not all(isinstance(name, str) for name in models):
        bundle.refuse(_SETTINGS, "models must be a list of names")
    length, pad = settings.get("length"), settings.get("pad")
    if not isinstance(length, int) or not isinstance(pad, int) or not 1 <= length <= _LONGEST:
        bundle.refuse(_SETTINGS, f"length and pad must be whole numbers, length at most {_LONGEST}")
    separated = settings.get("separated", True)  # before there were probes, all were
    if not isinstance(separated, bool):
        bundle.refuse(_SETTINGS, "separated must be true or false")
    stored = bundle.text(_TOKENIZER)
    try:
        share = settings.get("head_share", 0.0)
        text = EncoderText(Tokenizer.from_str(stored), length, share, pad, separated)
        text.ids(_TRIAL)
    except (TypeError, ValueError) as error:
        bundle.refuse(_SETTINGS, error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # of tokenizers: plain Exceptions, and panics, which are none
        bundle.refuse(_TOKENIZER, f"no tokenizer ({str(error).partition(chr(10))[0]})")
    network = bundle.data(_NETWORK)
    try:
        onnx.check(network)
        model = kind(network, text, tuple(models))
        model.check()  # now, when it can be refused, and not with the first prompt
    except ValueError as error:
        bundle.refuse(_NETWORK, error)
    return model
