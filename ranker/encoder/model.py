"""The encoder at serving: ONNX Runtime on one thread, no torch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ranker.encoder.model_number import model_number
from ranker.encoder.text import EncoderText
from ranker.prediction import Prediction
from ranker.types import LEVELS

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

INPUTS = ("ids", "mask", "model")
OUTPUTS = ("scores", "log_quantiles", "pooled")


@dataclass(frozen=True)
class EncoderModel:
    """``network`` is an ONNX file, see :mod:`ranker.encoder.export`; ``models`` are the served
    models that it tells apart, by :func:`ranker.encoder.model_number.model_number`.

    Prompts go through one at a time. An int8 network measures the range of each matrix as it
    passes, and in a batch that range is the neighbours' too: a prompt's score would depend on its
    company. Alone there is no padding either, and the activations of 128 tokens stay in a core's
    cache where those of 32 prompts do not: see the figures in :mod:`ranker.encoder.export`.

    The session is made at the first use, once, and shared by threads.
    """

    kind: ClassVar[str] = "encoder"

    network: bytes = field(repr=False)
    text: EncoderText
    models: tuple[str, ...] = ()
    _session: list[InferenceSession] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    _making: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        """Scores, quantiles and the pooled states; see :class:`ranker.prediction.LengthModel`."""
        session = self.session()
        model = np.array([model_number(served_model, self.models)], dtype=np.int64)
        scores = np.empty(len(prompts))
        logs = np.empty((len(prompts), len(LEVELS)))
        pooled = np.empty((len(prompts), session.get_outputs()[2].shape[1]))
        for row, tokens in enumerate(self.text.ids(prompts)):
            ids = np.array([tokens], dtype=np.int64)
            feed = {"ids": ids, "mask": np.ones_like(ids), "model": model}
            found = session.run(OUTPUTS, feed)
            scores[row], logs[row], pooled[row] = (np.asarray(array)[0] for array in found)
        quantiles = np.maximum.accumulate(np.maximum(np.expm1(logs), 0.0), axis=1)
        return Prediction(scores, quantiles, pooled)

    def session(self) -> InferenceSession:
        """Raises ``ValueError`` when ONNX Runtime does not take the network, or it is another."""
        with self._making:
            if not self._session:
                self._session.append(_session(self.network))
        return self._session[0]

    def check(self) -> None:
        """Let the longest prompt of the last token through, for the last served model.

        Raises ``ValueError`` when network and tokenizer were not made for each other.
        """
        session = self.session()
        ids = np.full((1, self.text.length), max(self.text.tokenizer.get_vocab().values()))
        feed = {"ids": ids, "mask": np.ones_like(ids), "model": np.array([len(self.models)])}
        try:
            found = session.run(OUTPUTS, feed)
        except Exception as error:  # its exceptions have no base class of their own
            raise ValueError(f"does not fit tokenizer and models ({_first(error)})") from None
        if not all(np.all(np.isfinite(array)) for array in found):
            raise ValueError("gives numbers that are not finite")


@dataclass(frozen=True)
class ProbeModel(EncoderModel):
    """The same of a decoder: ``network`` is a :class:`ranker.encoder.probe.ProbeNetwork`."""

    kind: ClassVar[str] = "probe"


def _session(network: bytes) -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    # A second pool of threads beside the engine's costs more than it brings on few cores.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # one plan per length of prompt would pile up
    options.log_severity_level = 3
    try:
        session = ort.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base class of their own
        raise ValueError(f"not a network that ONNX Runtime runs ({_first(error)})") from None
    inputs = {each.name: each.type for each in session.get_inputs()}
    if inputs != dict.fromkeys(INPUTS, "tensor(int64)"):
        raise ValueError(f"the network must take {', '.join(INPUTS)}, whole numbers, and no more")
    outputs = [(each.name, each.type, list(each.shape)[1:]) for each in session.get_outputs()]
    ends = [shape[-1:] for _, _, shape in outputs]
    if [name for name, _, _ in outputs] != list(OUTPUTS) or any(
        kind != "tensor(float)" for _, kind, _ in outputs
    ):
        raise ValueError(f"the network must give {', '.join(OUTPUTS)} as 32-bit numbers")
    if ends[0] or ends[1] != [len(LEVELS)] or not isinstance(ends[2][0] if ends[2] else None, int):
        raise ValueError(f"log_quantiles must have {len(LEVELS)} columns and pooled a fixed width")
    return session


def _first(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
