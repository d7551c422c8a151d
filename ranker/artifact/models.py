"""Models as files, whichever their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ranker.artifact import blend, encoder, lexical
from ranker.artifact.content import Bundle, Files, json_bytes
from ranker.encoder.model import EncoderModel, ProbeModel
from ranker.prediction import LengthModel

_KIND = "model.json"


def write(model: LengthModel) -> Files:
    """Raises ``ValueError`` for a model of a kind that no artifact can hold."""
    if model.kind not in _KINDS:
        raise ValueError(f"a model of kind {model.kind!r} cannot be saved; {_known()} can")
    return {_KIND: json_bytes({"kind": model.kind})} | _KINDS[model.kind][0](model)


def read(bundle: Bundle) -> LengthModel:
    """Raises :class:`ranker.artifact.ArtifactError` naming the file that is wrong."""
    kind = bundle.json(_KIND).get("kind")
    if kind not in tuple(_KINDS):
        bundle.refuse(_KIND, f"unknown kind {kind!r:.40}; this version reads {_known()}")
    return _KINDS[kind][1](bundle)


def _known() -> str:
    return ", ".join(_KINDS)


_KINDS: dict[str, tuple[Callable[[Any], Files], Callable[[Bundle], LengthModel]]] = {
    "lexical": (lexical.write, lexical.read),
    "encoder": (encoder.write, lambda bundle: encoder.read(bundle, EncoderModel)),
    "blend": (lambda model: blend.write(model, write), lambda bundle: blend.read(bundle, read)),
    "probe": (encoder.write, lambda bundle: encoder.read(bundle, ProbeModel)),
}
