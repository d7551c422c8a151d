"""Which fields a gRPC service refused, read from ``google.rpc.BadRequest``."""

from __future__ import annotations

import re

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_KEY = "grpc-status-details-bin"
_PLACE = re.compile(r"(\w+)\[(\d+)\]")


def refused_fields(error: grpc.aio.AioRpcError) -> list[str]:
    """Paths as the service wrote them, such as ``outcomes[3].tenant``; none when it names none."""
    found = []
    for key, value in error.trailing_metadata() or ():
        if key != _KEY:
            continue
        status = status_pb2.Status()
        try:
            status.ParseFromString(value)
        except DecodeError:
            continue
        for detail in status.details:
            bad = error_details_pb2.BadRequest()
            if detail.Is(bad.DESCRIPTOR) and detail.Unpack(bad):
                found += [violation.field for violation in bad.field_violations]
    return found


def refused_places(error: grpc.aio.AioRpcError, name: str) -> set[int]:
    """Of the repeated field ``name``, the places that were refused."""
    matches = map(_PLACE.match, refused_fields(error))
    return {int(m.group(2)) for m in matches if m is not None and m.group(1) == name}
