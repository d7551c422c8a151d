"""Why a protobuf message does not parse: the runtime says only that it does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ranker.protobuf import BYTES, fields


def invalid_utf8(descriptor: Descriptor, data: bytes) -> str:
    """Path of the first string field of ``data`` that is not UTF-8, such as ``items[2].prompt``.

    ``""`` when there is none or the bytes are malformed in another way.
    """
    try:
        return _walk(descriptor, memoryview(data))
    except (IndexError, ValueError):
        return ""


def _walk(descriptor: Descriptor, data: memoryview) -> str:
    seen = Counter[int]()
    for number, kind, value in fields(data):
        if kind != BYTES or not isinstance(value, memoryview):
            continue
        field: Any = descriptor.fields_by_number.get(number)
        index = seen[number]
        seen[number] += 1
        if field is not None and (found := _inside(field, value)) is not None:
            name = f"{field.name}[{index}]" if field.is_repeated else field.name
            return f"{name}.{found}" if found else name
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
