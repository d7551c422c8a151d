"""The structures of ``ops.h``, field by field."""

from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p


class Kind(enum.IntEnum):
    """Operators, as ``enum sf_kind``."""

    EMBED = 0
    NORM = 1
    LINEAR = 2
    ROTATE = 3
    ATTEND = 4
    GATED = 5
    GATHER = 6
    HEAD = 7


class Act(enum.IntEnum):
    """Activations, as ``enum sf_act``."""

    SILU = 0
    GELU_TANH = 1
    GELU = 2


class Op(Structure):
    _fields_ = [
        ("kind", c_int32), ("act", c_int32),
        ("input", c_int32), ("output", c_int32), ("residual", c_int32),
        ("n", c_int32), ("k", c_int32),
        ("layer", c_int32), ("window", c_int32),
        ("eps", c_float), ("scale", c_float), ("softcap", c_float), ("offset", c_float),
        ("weight", c_void_p), ("second", c_void_p),
    ]  # fmt: skip


class Heads(Structure):
    _fields_ = [("heads", c_int32), ("kv_heads", c_int32), ("dim", c_int32), ("rotary", c_int32)]


class ProgramRecord(Structure):
    _fields_ = [
        ("bf16", c_int32), ("count", c_int32),
        ("heads", Heads),
        ("ops", POINTER(Op)), ("data", POINTER(c_void_p)), ("widths", POINTER(c_int32)),
    ]  # fmt: skip


class StepRecord(Structure):
    _fields_ = [
        ("rows", c_int32), ("sequences", c_int32),
        ("block", c_int32), ("table_width", c_int32), ("sampled", c_int32),
        ("longest", c_int32),
        ("ids", c_void_p), ("positions", c_void_p), ("firsts", c_void_p), ("tables", c_void_p),
        ("wanted", c_void_p), ("pool", POINTER(c_void_p)),
        ("cosines", c_void_p), ("sines", c_void_p), ("logits", c_void_p),
    ]  # fmt: skip


class LayerRecord(Structure):
    _fields_ = [
        ("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("out", c_void_p),
        ("q_row", c_int64), ("q_head", c_int64), ("k_row", c_int64), ("k_head", c_int64),
        ("v_row", c_int64), ("v_head", c_int64), ("out_row", c_int64),
        ("pool", c_void_p), ("sinks", c_void_p),
        ("scale", c_float), ("softcap", c_float), ("window", c_int32),
        ("heads", Heads),
    ]  # fmt: skip


def declare(library: ctypes.CDLL) -> None:
    """Argument and result types of what the library exports."""
    size, number, pointer = ctypes.c_size_t, ctypes.c_int, c_void_p
    signatures = {
        "sf_threads_new": (pointer, [number]),
        "sf_threads_free": (None, [pointer]),
        "sf_run": (number, [POINTER(ProgramRecord), POINTER(StepRecord), pointer]),
        "sf_attend": (number, [POINTER(LayerRecord), POINTER(StepRecord), number, pointer]),
        "sf_linear": (
            None,
            [pointer, number, pointer, number, number, pointer, pointer, number, pointer],
        ),
        "sf_large_pages": (None, [pointer, size]),
        "sf_packed_size_bf16": (size, [number, number]),
        "sf_packed_size_f32": (size, [number, number]),
        "sf_pack_bf16": (None, [pointer, number, number, pointer]),
        "sf_pack_f32": (None, [pointer, number, number, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
