"""A trained network into the file that serves it. This needs torch and onnx; serving does not.

Why int8 with ranges measured at run time, and 7 bits of weight. MiniLM (6 layers, 384 wide) on one
core of a Xeon with AMX that others were using too, best of 40 calls, ONNX Runtime 1.32. Scores are
those of a ridge regression on the pooled states of 1,200 ShareGPT prompts, for 800 others: tau-b
against their lengths, and Spearman and the largest difference, in standard deviations, to fp32:

    ================================  =====  ===============  ======  ========  =======
    form                                 MB  128 tokens, ms      tau  Spearman  largest
    ================================  =====  ===============  ======  ========  =======
    fp32                               90.4             28.6   .2352         1        0
    int8, 8 bits of weight             22.9             14.6   .2354      .993      .36
    int8, 7 bits of weight (served)    22.9             16.0   .2338      .993      .39
    int8, a range for each token       22.9                -   .2356      .996      .40
    8-bit weights alone                58.9             41.9   .2352     .9998      .06
    8-bit weights, blocks of 128       58.9             28.1   .2376      .999      .18
    ================================  =====  ===============  ======  ========  =======

What int8 changes is where neighbours in the order stand, which is below what the order knows of
lengths. The seventh bit is given up because processors with AVX2 and no VNNI add pairs of products
in 16 bits, which overflow at eight: with seven, every processor gets the same integers. One prompt
at a time: 32 prompts of 128 tokens in one call took 35 to 63 ms a prompt, more than twice a call
each, since their activations do not fit a core's cache, and made int8 scores depend on the batch.
A little under half of an int8 call is matrix products. ``python -m training.encoder.served_form``
prints sizes and times.

A decoder has a few states that are hundreds of times the others (Sun et al. 2024, "Massive
Activations"), which one range for a whole matrix drowns. It is served with a range for each block
of 128. SmolLM2-135M up to its 20th layer on one core of an EPYC with VNNI, shared; 150 ShareGPT
prompts of 73 tokens in the mean, ``kendall`` and ``largest`` to fp32, tau-b against own lengths:

    ================================  =====  =============  ==============  =====  =======  =======
    form                                 MB  a prompt, ms   128 tokens, ms    tau  kendall  largest
    ================================  =====  =============  ==============  =====  =======  =======
    fp32                              396.6            114             190   .410        1        0
    int8, as the encoder              100.0             43              68   .336     .559     2.39
    8-bit weights, blocks of 128      192.6            224             290   .412     .983      .10
    both in 8 bits, blocks of 128     192.6             78             128   .417     .943      .34
    the same, 8-bit words (served)      107             77             125   .414     .941      .37
    the same, blocks of 32              108             96             164   .410     .962      .21
    ================================  =====  =============  ==============  =====  =======  =======
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ranker.encoder.model import INPUTS, OUTPUTS, EncoderModel, ProbeModel
from ranker.encoder.text import EncoderText

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn

    from ranker.encoder.network import LengthNetwork
    from ranker.encoder.probe import ProbeNetwork

Precision = Literal["int8", "fp32"]

_OPSET = 18
_BLOCK = 128  # weights, and activations, that share a range where a matrix has many
_SCORE = "score."  # what the line of a probe is called there
_TOLERANCE = 1e-3  # of the spread of an output; seen are 1e-5


def export(
    network: LengthNetwork, text: EncoderText, precision: Precision = "int8"
) -> EncoderModel:
    """``network`` as it serves; same network and library versions, same bytes.

    Raises ``ValueError`` when what comes out does not compute what ``network`` does.
    """
    graph = graph_of(network)
    whole = EncoderModel(graph.SerializeToString(deterministic=True), text, network.models)
    check(whole, network)
    if precision == "fp32":
        return whole
    return EncoderModel(in_int8(graph), text, network.models)


def export_probe(network: ProbeNetwork, text: EncoderText) -> ProbeModel:
    """The same of a decoder, in 8 bits by blocks. Raises ``ValueError`` as :func:`export` does."""
    graph = graph_of(network)
    check(ProbeModel(graph.SerializeToString(deterministic=True), text), network)
    return ProbeModel(in_blocks(graph), text)


def graph_of(network: LengthNetwork | ProbeNetwork) -> ModelProto:
    """``network`` in fp32, for any number of rows and tokens, without traces of its origin. Raises
    ``ValueError`` when torch cannot write it."""
    import torch

    was_training = network.training
    ids = torch.ones((2, 8), dtype=torch.int64)
    rows, tokens = torch.export.Dim("rows", min=1), torch.export.Dim("tokens", min=2)
    shapes = ({0: rows, 1: tokens}, {0: rows, 1: tokens}, {0: rows})
    try:
        with _silent(), torch.no_grad():
            program = torch.onnx.export(
                network.eval(),
                (ids, ids.clone(), torch.zeros(2, dtype=torch.int64)),
                dynamo=True,
                verbose=False,
                input_names=INPUTS,
                output_names=OUTPUTS,
                dynamic_shapes=shapes,
                external_data=False,
                opset_version=_OPSET,
            )
    except RuntimeError as error:  # its own are of that kind
        said = str(error).partition("\n")[0][:200]
        raise ValueError(f"export: torch cannot write this network as ONNX ({said})") from error
    finally:
        network.train(was_training)
    assert program is not None
    graph: ModelProto = program.model_proto
    # Notes of the exporter: source lines and paths of the machine it ran on.
    inner = graph.graph
    for parts in (inner.node, inner.value_info, inner.input, inner.output, inner.initializer):
        for part in parts:
            del part.metadata_props[:]
            part.doc_string = ""
    for part in (graph, inner):
        del part.metadata_props[:]
        part.doc_string = ""
    return graph


def check(model: EncoderModel, network: LengthNetwork | ProbeNetwork) -> None:
    """Raises ``ValueError`` unless ``model`` computes what ``network`` does, padded or not."""
    import torch

    rng = np.random.default_rng(0)
    most = int(network.encoder.config.vocab_size)
    session = model.session()
    for rows, tokens in ((1, 2), (1, model.text.length), (3, 17)):
        ids = rng.integers(0, most, (rows, tokens))
        mask = np.ones_like(ids)
        mask[1:, tokens - 5 :] = 0  # of several rows, all but the first are padded
        number = np.arange(rows) % (len(network.models) + 1)
        found = session.run(OUTPUTS, dict(zip(INPUTS, (ids, mask, number), strict=True)))
        with torch.no_grad(), _evaluating(network):
            wanted = network(*map(torch.from_numpy, (ids, mask, number)))
        for name, a, b in zip(OUTPUTS, wanted, found, strict=True):
            away = float(np.abs(a.numpy() - b).max())
            if not away <= _TOLERANCE * max(1.0, float(a.abs().max())):
                raise ValueError(
                    f"encoder export: {name} of {rows} x {tokens} tokens is off by {away:.3g}"
                )


def in_int8(graph: ModelProto) -> bytes:
    """An ONNX file with the weights of matrix products and of embeddings in 8 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="shortfirst-") as scratch, _silent():
        path = Path(scratch) / "int8.onnx"
        quantize_dynamic(
            graph,
            path,
            op_types_to_quantize=["MatMul", "Gather"],  # not the heads, which are Gemm
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        return path.read_bytes()


def in_blocks(graph: ModelProto) -> bytes:
    """The same with a range for each block of a matrix, of weights and of what they multiply; the
    embeddings have one. The line that gives the score is left alone."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.matmul_nbits_quantizer import (
        DefaultWeightOnlyQuantConfig,
        MatMulNBitsQuantizer,
    )

    with tempfile.TemporaryDirectory(prefix="shortfirst-") as scratch, _silent():
        path = Path(scratch) / "words.onnx"
        quantize_dynamic(
            graph,
            path,
            op_types_to_quantize=["Gather"],
            per_channel=True,
            weight_type=QuantType.QInt8,
        )
        found = onnx.load(path)
        line = [
            node.name
            for node in found.graph.node
            if any(name.startswith(_SCORE) for name in node.input)
        ]
        blocks = DefaultWeightOnlyQuantConfig(
            block_size=_BLOCK,
            is_symmetric=True,
            accuracy_level=4,  # activations in 8 bits
            bits=8,
        )
        quantizer = MatMulNBitsQuantizer(found, nodes_to_exclude=line, algo_config=blocks)
        quantizer.process()
        made: bytes = quantizer.model.model.SerializeToString(deterministic=True)
        return made


@contextlib.contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The exporter and the quantiser print advice that nobody can follow."""
    before = logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
