"""One table of errors for both edges: what went wrong -> gRPC status, HTTP status, OpenAI type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

#: Trailing metadata under which gRPC carries ``google.rpc.Status``.
_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class _Row:
    grpc: grpc.StatusCode
    http: int
    openai_type: str


class Kind(Enum):
    """What went wrong, with its status at each edge."""

    INVALID = _Row(grpc.StatusCode.INVALID_ARGUMENT, 400, "invalid_request_error")
    NOT_FOUND = _Row(grpc.StatusCode.NOT_FOUND, 404, "not_found_error")
    CONFLICT = _Row(grpc.StatusCode.ALREADY_EXISTS, 409, "invalid_request_error")
    TOO_LARGE = _Row(grpc.StatusCode.RESOURCE_EXHAUSTED, 413, "invalid_request_error")
    BUSY = _Row(grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "rate_limit_error")
    DEADLINE = _Row(grpc.StatusCode.DEADLINE_EXCEEDED, 504, "timeout_error")
    UNAVAILABLE = _Row(grpc.StatusCode.UNAVAILABLE, 503, "service_unavailable_error")
    INTERNAL = _Row(grpc.StatusCode.INTERNAL, 500, "server_error")


class RequestError(Exception):
    """A request that cannot be served.

    ``field`` names the offending field as the caller wrote it. ``retry_after_s`` says when another
    try makes sense, in seconds. The message never quotes a prompt.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        field: str = "",
        retry_after_s: float | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s
        self.code = code


def invalid(field: str, problem: str) -> RequestError:
    """INVALID_ARGUMENT / 400: ``field`` as the caller wrote it, then what to change."""
    return RequestError(Kind.INVALID, f"{field}: {problem}" if field else problem, field=field)


def named_field(error: ValueError, names: tuple[str, ...]) -> str:
    """Which of ``names`` a configuration's ``ValueError`` is about, or ``""``.

    Our dataclasses start their messages with ``field`` or ``owner.field``.
    """
    words = str(error).split(None, 1)
    first = words[0].rstrip(":,").rpartition(".")[2] if words else ""
    return first if first in names else ""


def grpc_details(error: RequestError) -> tuple[tuple[str, bytes], ...]:
    """Trailing metadata with BadRequest and RetryInfo where they apply."""
    details = []
    if error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=error.message
        )
        details.append(_pack(error_details_pb2.BadRequest(field_violations=[violation])))
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
    if not details:
        return ()
    status = status_pb2.Status(
        code=error.kind.value.grpc.value[0], message=error.message, details=details
    )
    return ((_DETAILS_KEY, status.SerializeToString()),)


def openai_body(error: RequestError) -> dict[str, object]:
    """The body that OpenAI clients expect of an error."""
    return {
        "error": {
            "message": error.message,
            "type": error.kind.value.openai_type,
            "param": error.field or None,
            "code": error.code or None,
        }
    }


def http_headers(error: RequestError) -> dict[str, str]:
    """``Retry-After`` in whole seconds, at least 1, when another try makes sense."""
    if error.retry_after_s is None:
        return {}
    return {"retry-after": str(max(1, math.ceil(error.retry_after_s)))}


def _pack(message: error_details_pb2.BadRequest | error_details_pb2.RetryInfo) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
