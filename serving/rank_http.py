"""The HTTP side of the rank service: metrics, and the dashboard of its drift monitor."""

from __future__ import annotations

import gzip

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving.dashboard.routes import Dashboard, accepts_gzip


def rank_app(registry: CollectorRegistry, dashboard: Dashboard | None) -> Starlette:
    """Metrics are put together in a thread: forecasts don't wait for a scrape."""

    def exposed(names: list[str], accept: str) -> tuple[bytes, str]:
        encode, kind = choose_encoder(accept)
        return encode(registry.restricted_registry(names) if names else registry), kind

    async def metrics(request: Request) -> Response:
        names = request.query_params.getlist("name[]")
        body, kind = await run_in_threadpool(exposed, names, request.headers.get("accept", ""))
        headers = {"content-type": kind, "vary": "accept, accept-encoding"}
        if accepts_gzip(request):
            body = await run_in_threadpool(gzip.compress, body, 5)
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    routes = dashboard.routes() if dashboard is not None else []
    return Starlette(routes=[Route("/metrics", metrics), *routes])
