"""Why a protobuf message does not parse: the runtime says only that it does not."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def invalid_utf8(descriptor: Descriptor, data: bytes) -> str:
    """Path of the first string field of ``data`` that is not UTF-8, such as ``items[2].prompt``.

    ``""`` when there is none or the bytes are malformed in another way.
    """
    try:
        return _walk(descriptor, memoryview(data))
    except (IndexError, ValueError):
        return ""


def _walk(descriptor: Descriptor, data: memoryview) -> str:
    at, seen = 0, dict[int, int]()
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        elif wire == _LENGTH:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("truncated")
            field: Any = descriptor.fields_by_number.get(number)
            index = seen.get(number, 0)
            seen[number] = index + 1
            if field is not None and (found := _inside(field, data[at : at + size])) is not None:
                name = f"{field.name}[{index}]" if field.is_repeated else field.name
                return f"{name}.{found}" if found else name
            at += size
        else:
            raise ValueError("unknown wire type")
    return ""


def _inside(field: FieldDescriptor, data: memoryview) -> str | None:
    """``None``: fine. ``""``: this field is to blame. Else the path below it."""
    if field.type == FieldDescriptor.TYPE_STRING:
        try:
            bytes(data).decode("utf-8")
        except UnicodeDecodeError:
            return ""
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        return _walk(field.message_type, data) or None
    return None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")
