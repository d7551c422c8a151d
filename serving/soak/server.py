"""The real server on a tiny model with too little memory, in this process, and what it holds."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import grpc
from prometheus_client import CollectorRegistry

from engine.backend import TorchBackend
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.live import OnOutcome
from engine.native.library import Native
from serving import engine_server
from serving.drain import StopSignal
from serving.engine_server import EngineServerConfig
from serving.soak.acts import CONTEXT, LANES, Act
from serving.soak.client import Client
from serving.soak.http import get
from serving.soak.residue import Residue, per_request, residue
from serving.soak.tiny import tiny_model

_BLOCK = 16
_COST = CostModel(1e-3, 1e-4, 2e-5, swap=1e-6)
#: Memory for one request at full length and a little more, and eight that may run at once: it runs
#: out all the time, whatever the machine.
_LIMITS = SchedulerConfig(
    max_num_seqs=8, max_num_batched_tokens=128, block_size=_BLOCK,
    num_blocks=CONTEXT // _BLOCK + 4, max_waiting=20, host_blocks=CONTEXT // _BLOCK, cost=_COST,
)  # fmt: skip
#: Metrics that are 0 when nobody is served.
_IDLE = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_ratio",
         "requests_in_flight")  # fmt: skip
#: How long a server that nobody asks anything may take to become idle, and one request at most.
_SETTLE_S, _REQUEST_S = 20.0, 60.0
#: How long a client that was told of a full queue stays away.
_BACK_OFF_S = 0.2


class Soaked:
    """A server under way, with a client; its metrics are read over HTTP, as others do."""

    def __init__(self, backend: TorchBackend, client: Client, http: tuple[str, int]) -> None:
        self.backend = backend
        self._client = client
        self._http = http
        self._elsewhere = per_request()

    async def play(
        self, acts: Iterator[Act], clients: int, over: Callable[[], None]
    ) -> Counter[str]:
        """All of ``acts``, so many at once; how often each kind ended how, by protocol."""
        counts: Counter[str] = Counter()

        async def work() -> None:
            for act in acts:
                try:
                    result = await asyncio.wait_for(self._client.play(act), _REQUEST_S)
                except (OSError, TimeoutError, ValueError, LookupError) as error:
                    result = f"!{type(error).__name__}"
                counts[f"{act.protocol} {act.kind}: {result}"] += 1
                if result == "busy":
                    # As a client that heeds the hint; else most of all requests would be refused.
                    await asyncio.sleep(_BACK_OFF_S)
                over()

        await asyncio.gather(*(work() for _ in range(clients)))
        return counts

    async def settled(self, before: Residue | None = None) -> Residue:
        """What is held once the engine is idle and holds no more than ``before``, or at last."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            found = residue(await self._readings(), self._elsewhere)
            if not found.beyond(before or found) or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.1)

    async def _readings(self) -> dict[str, float]:
        lines = (await get(self._http, "/metrics")).splitlines()
        pairs = (line.removeprefix("shortfirst_engine_").split(" ") for line in lines)
        values = {pair[0]: float(pair[1]) for pair in pairs if pair[0] in _IDLE}
        if len(values) < len(_IDLE):
            raise LookupError(f"the metrics lack some of {', '.join(_IDLE)}")
        return values


@asynccontextmanager
async def soaked_server(native: Native | None = None) -> AsyncIterator[Soaked]:
    """Both protocols, two lanes, fair tenants, swap, prefix cache. Leaving drains it."""
    model, stop, made = tiny_model(native), StopSignal(), []
    lanes = (
        Lane(LaneConfig(LANES[0], share=3), make("mlfq", cost=_COST, batch=8, serving=True)),
        Lane(LaneConfig(LANES[1], max_waiting=12), make("priority", serving=True)),
    )

    def start(on_outcome: OnOutcome) -> TorchBackend:
        fair = FairnessConfig(counters=True)
        made.append(TorchBackend(model, _LIMITS, lanes, fairness=fair, on_outcome=on_outcome))
        return made[0]

    with tempfile.TemporaryDirectory(prefix="shortfirst-soak-") as folder:
        file = Path(folder) / "ready.json"
        config = EngineServerConfig(grpc_port=0, http_port=0, drain_s=_SETTLE_S)
        task = asyncio.create_task(
            engine_server.run(config, start, CollectorRegistry(), ready_file=file, stop=stop)
        )
        with contextlib.redirect_stdout(io.StringIO()):  # where it is ready, it says there
            while not file.exists():
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
        where = json.loads(file.read_text(encoding="utf-8"))
    url = urlsplit(where["http"])
    http = (str(url.hostname), int(url.port or 0))
    try:
        async with grpc.aio.insecure_channel(where["grpc"]) as channel:
            yield Soaked(made[0], Client(http, channel), http)
    finally:
        stop.receive()
        await task
