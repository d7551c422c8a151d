"""ONNX files that refer to something outside of themselves, or are none."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from ranker.artifact.onnx import check

onnx = pytest.importorskip("onnx")

NONE = r"cut short|no ONNX model|no protocol buffer"


@pytest.fixture
def model(graph):
    copy = onnx.ModelProto()
    copy.CopyFrom(graph)
    return copy


def refused(model, message):
    with pytest.raises(ValueError, match=message):
        check(model if isinstance(model, bytes) else model.SerializeToString())


def test_networks_that_are_exported_are_taken(graph, encoder):
    check(graph.SerializeToString())
    check(encoder.network)


def test_weights_in_another_file_are_refused(model):
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    refused(model, "another file")
    tensor.ClearField("data_location")
    tensor.external_data.add(key="location", value="/etc/passwd")
    refused(model, "another file")


def test_so_are_those_of_a_graph_inside_a_node(model):
    inner = onnx.GraphProto()
    inner.initializer.add().external_data.add(key="location", value="x")
    model.graph.node[0].attribute.add(name="body", g=inner)
    refused(model, "another file")


def test_those_of_a_constant_too(model):
    tensor = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    model.graph.node[0].attribute.add(name="value", t=tensor)
    refused(model, "another file")
    model.graph.sparse_initializer.add().values.CopyFrom(tensor)
    refused(model, "another file")


def test_operators_of_other_libraries_are_refused(model):
    model.graph.node[3].domain = "com.example.native"
    refused(model, "com.example.native")
    model.graph.node[3].domain = ""
    model.opset_import.add(domain="com.example.native", version=1)
    refused(model, "com.example.native")


def test_functions_and_training_parts_are_refused(model):
    model.functions.add(name="f")
    refused(model, "function part")
    del model.functions[:]
    model.training_info.add()
    refused(model, "training part")


def test_endless_nesting_is_refused(model):
    node = model.graph.node[0]
    for _ in range(40):
        attribute = node.attribute.add(name="body")
        node = attribute.g.node.add()
    refused(model, "nested too deeply")


def test_what_is_cut_or_no_protocol_buffer_is_refused(graph):
    data = graph.SerializeToString()
    for end in (1, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(ValueError, match=NONE):
            check(data[:end])
    for other in (b"", b"\x80\x04K\x01.", b"{}", b"\xff" * 30, b"PK\x03\x04" * 5):
        with pytest.raises(ValueError, match=NONE):
            check(other)


def test_random_damage_is_refused_or_harmless(graph):
    data = graph.SerializeToString()
    rng = random.Random(0)
    for _ in range(100):
        changed = bytearray(data)
        for _ in range(3):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        with suppress(ValueError):
            check(bytes(changed))
