"""All receivers together."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drift.entry import Entry
from drift.notify.config import Webhook
from drift.notify.courier import Courier
from drift.notify.notice import Board, Status
from drift.notify.post import Reply


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of the notices for one receiver; ``results`` as :class:`Courier` counts them."""

    name: str
    kind: str
    waiting: int
    firing: int
    results: Mapping[str, int]


class Notifier:
    """Tells every receiver; each has a queue and a thread of its own, so none waits for another."""

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        environ: Mapping[str, str],
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Raises ``ValueError`` when the environment lacks a secret of one of them."""
        self._clock = clock
        for webhook in webhooks:  # all, before the first thread runs
            webhook.address(environ), webhook.token(environ), webhook.secret(environ)
        self._couriers = [
            Courier(w, environ, clock, random.Random(rng.getrandbits(64))) for w in webhooks
        ]

    def tell(self, entry: Entry) -> None:
        """Returns at once, whatever the receivers do."""
        for courier in self._couriers:
            courier.tell(entry)

    def restore(self, entries: Iterable[Entry]) -> None:
        """What was said last of each slice before a restart; see :meth:`Courier.restore`."""
        for entry in entries:
            for courier in self._couriers:
                courier.restore(entry)

    def test(self, entry: Entry) -> list[list[Reply]]:
        """Send each receiver an alert about ``entry`` and its end, past queues and levels; what
        each answered. One attempt each; waits for the answers."""
        start = Board().take(entry)
        end = [replace(n, status=Status.RESOLVED) for n in start]
        return [
            [reply for notice in (*start, *end) if (reply := courier.send(notice)) is not None]
            for courier in self._couriers
        ]

    def deliveries(self) -> list[Delivery]:
        return [
            Delivery(c.webhook.name, c.webhook.kind, c.waiting, c.firing, dict(c.counts))
            for c in self._couriers
        ]

    def close(self, within_s: float = 5.0) -> None:
        """Send what waits, for ``within_s`` seconds at most."""
        until = self._clock() + within_s
        for courier in self._couriers:
            courier.finish()
        for courier in self._couriers:
            courier.close(max(0.0, until - self._clock()))
