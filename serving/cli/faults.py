"""What a service that a command relies on did wrong, in one line. Imports no gRPC by itself."""

from __future__ import annotations

import sys


def service_fault(error: BaseException) -> tuple[str, int] | None:
    """The line and the exit status, or ``None`` when ``error`` isn't about a service.

    A class can only have been raised when its module is loaded, so none is loaded for it: most
    commands do without gRPC.
    """
    if "serving.processes" in sys.modules:
        from serving.processes import ServiceFailed

        if isinstance(error, ServiceFailed):
            return str(error), 1
    if "serving.rank_query" in sys.modules:
        from serving.rank_query import QueryFailed

        if isinstance(error, QueryFailed):
            return str(error), 1 if error.unavailable else 2
    if "grpc" in sys.modules:
        import grpc

        if isinstance(error, grpc.RpcError):
            if isinstance(error, grpc.Call | grpc.aio.AioRpcError):
                return f"a service answered {error.code().name}: {error.details()}", 1
            return "a service answered an error", 1
    return None
