"""A gRPC server with health, reflection, limits and a graceful end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from serving.drain import Gate
from serving.interceptors import Guard, Observer, methods
from serving.limits import Limits

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class GrpcServer:
    """One service on one address. ``address`` may end in ``:0``; ``start`` says what it became.

    ``add`` registers the servicer, as generated ``add_..._to_server`` functions do, and
    ``descriptor`` is its service descriptor.
    """

    def __init__(
        self,
        address: str,
        descriptor: Any,
        add: Callable[[grpc.aio.Server], None],
        gate: Gate,
        limits: Limits,
        observe: Observer = lambda method, code, seconds: None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self._address = address
        self._name = descriptor.full_name
        self._server = grpc.aio.server(
            interceptors=[Guard(methods(descriptor), gate, observe)],
            options=[
                ("grpc.max_receive_message_length", limits.max_message_bytes),
                # Two servers on one port would share its calls at random.
                ("grpc.so_reuseport", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                *options,
            ],
        )
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        add(self._server)
        reflection.enable_server_reflection(
            (self._name, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
        )

    async def start(self) -> str:
        """Listen and answer; returns the address that is bound.

        Raises ``OSError`` when the address is taken or not of this machine.
        """
        host = self._address.rpartition(":")[0]
        try:
            port = self._server.add_insecure_port(self._address)
        except RuntimeError:
            port = 0
        if not port:
            raise OSError(0, "cannot listen here: the port is taken or the host is not this one",
                          self._address)  # fmt: skip
        await self._health.set(self._name, _NOT_SERVING)
        await self._health.set("", _NOT_SERVING)
        await self._server.start()
        return f"{host}:{port}"

    async def set_serving(self, serving: bool = True) -> None:
        for name in (self._name, ""):
            await self._health.set(name, _SERVING if serving else _NOT_SERVING)

    async def leave(self) -> None:
        """Tell health checks that the end is near; calls inside go on."""
        await self._health.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Close. To be called after the drain: what is still inside is cancelled."""
        await self._server.stop(0.5)
