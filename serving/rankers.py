"""Which ranker answers for which served model, and how a newly promoted one takes its place."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, runtime_checkable

from ranker.length_ranker import POOLED
from ranker.types import Ranker
from serving.errors import Kind, RequestError
from serving.logs import failure

log = logging.getLogger(__name__)

_ALIAS = re.compile(r"models:/(?P<name>[^/@]+)@(?P<alias>[^/@]+)")


class Source(Protocol):
    """What of ``ranker.registry.Registry`` a reload needs."""

    def load(self, uri: str) -> Ranker: ...

    def resolve(self, name: str, alias: str) -> str | int | None: ...


@runtime_checkable
class Several(Protocol):
    """What a pooled ranker may know of served models; see ``ranker.length_ranker.LengthRanker``."""

    def knows(self, served_model: str) -> bool: ...

    def serving(self, served_model: str) -> Self: ...


@dataclass(frozen=True, slots=True)
class Answering:
    """The ranker that answers; ``fallback`` when it does not know the served model."""

    ranker: Ranker
    fallback: bool = False


class Rankers:
    """The current ranker of each served model, and the pooled one, which stands in for the rest.

    Swapping one never disturbs a call under way.
    """

    def __init__(self, current: Mapping[str, Ranker], default: str = "") -> None:
        if not current:
            raise ValueError("rankers must hold at least one ranker")
        self._current = dict(current)
        #: By served model that the pooled ranker knows, so that its calls can share a batch.
        self._of_pooled: dict[str, Ranker] = {}
        self.default = default or next(iter(self._current))
        if self.default not in self._current:
            raise ValueError(f"default: no ranker serves {self.default!r}")

    def of(self, served_model: str) -> Answering:
        """Raises NOT_FOUND, naming the models that are served, when there is no pooled ranker."""
        served_model = served_model or self.default
        ranker = self._current.get(served_model)
        if ranker is not None:
            return Answering(ranker)
        pooled = self._current.get(POOLED)
        if pooled is None:
            known = ", ".join(sorted(self._current))
            raise RequestError(
                Kind.NOT_FOUND,
                f"served_model: no ranker for {served_model[:64]!r}; there is one for {known}",
                field="served_model",
            )
        if not isinstance(pooled, Several) or not pooled.knows(served_model):
            return Answering(pooled, fallback=True)
        if served_model not in self._of_pooled:
            self._of_pooled[served_model] = pooled.serving(served_model)
        return Answering(self._of_pooled[served_model])

    def loaded(self) -> tuple[Ranker, ...]:
        """Each served model's own, and the pooled one."""
        return tuple(self._current.values())

    def replace(self, ranker: Ranker) -> None:
        self._current[ranker.served_model] = ranker
        if ranker.served_model == POOLED:
            self._of_pooled.clear()


@dataclass(frozen=True, slots=True)
class Watched:
    """An alias to follow, for one served model. ``version`` is the one that is loaded."""

    uri: str
    served_model: str
    version: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Version ``after`` of a registered name serves in the place of ``before``."""

    name: str
    alias: str
    served_model: str
    before: str
    after: str


def follows_alias(uri: str) -> bool:
    """Whether ``uri`` is ``models:/name@alias``, which can come to mean another version."""
    return _ALIAS.fullmatch(uri) is not None


def name_and_alias(uri: str) -> tuple[str, str]:
    """Of ``models:/name@alias``. Raises ``ValueError`` for anything else."""
    match = _ALIAS.fullmatch(uri)
    if match is None:
        raise ValueError(f"{uri} is not models:/name@alias")
    return match["name"], match["alias"]


async def follow(
    watched: list[Watched],
    source: Source,
    rankers: Rankers,
    every_s: float,
    changed: Callable[[Swap], None] = lambda swap: None,
    looked: Callable[[], None] = lambda: None,
) -> None:
    """Look at each alias every ``every_s`` seconds and swap its ranker when it moved; never ends.

    A registry that is away or a version that does not load leaves the ranker that serves.
    ``changed`` is told of each swap and ``looked`` is called after each round, both in the thread
    that reads the registry: they may take their time, and what they raise is logged.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="reload") as thread:
        while True:
            await asyncio.sleep(every_s)
            for i, item in enumerate(watched):
                try:
                    ranker = await loop.run_in_executor(thread, _reloaded, source, item)
                except Exception as error:
                    log.warning("%s was not reloaded: %s", item.uri, failure(error))
                    continue
                if ranker is None:
                    continue
                rankers.replace(ranker)
                watched[i] = Watched(item.uri, item.served_model, str(ranker.version))
                log.info("%s is now version %s", item.uri, ranker.version)
                name, alias = name_and_alias(item.uri)
                swap = Swap(name, alias, item.served_model, item.version, str(ranker.version))
                await loop.run_in_executor(thread, _guarded, partial(changed, swap))
            await loop.run_in_executor(thread, _guarded, looked)


def _guarded(told: Callable[[], None]) -> None:
    try:
        told()
    except Exception as error:
        log.error("after a look at the registry: %s", failure(error))


def _reloaded(source: Source, item: Watched) -> Ranker | None:
    name, alias = name_and_alias(item.uri)
    version = source.resolve(name, alias)
    if version is None or str(version) == item.version:
        return None
    # By number: the alias may move again between the two calls.
    ranker = source.load(f"models:/{name}/{version}")
    if ranker.served_model != item.served_model:
        raise ValueError(f"version {version} serves another model")
    return ranker
