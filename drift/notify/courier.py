"""One receiver's queue and the thread that empties it: nobody who puts something in ever waits."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping

from drift.entry import Entry
from drift.notify.config import Webhook
from drift.notify.formats import FORMATS
from drift.notify.notice import Board, Notice
from drift.notify.post import Reply, headers, post
from drift.notify.retry import passes, retry_after_s
from drift.plain import one_line
from drift.states import State

log = logging.getLogger(__name__)

#: How many entries are remembered so that the same one told twice is sent once.
_MEMORY = 1024


class Courier:
    """``clock`` gives Unix seconds. Counts what became of notices: ``delivered``; ``resent`` (an
    alert that still fires); ``retried`` (an attempt failed and another follows); ``duplicate``; and
    of lost ones ``refused`` (the receiver will not have it), ``exhausted`` (nor had it in all
    attempts), ``dropped`` (the queue was full: the oldest went) and ``unsent`` (closed before).
    """

    def __init__(
        self,
        webhook: Webhook,
        environ: Mapping[str, str],
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Raises ``ValueError`` when the environment lacks a secret."""
        self.webhook = webhook
        self.counts: Counter[str] = Counter()
        self._url = webhook.address(environ)
        self._token, self._secret = webhook.token(environ), webhook.secret(environ)
        self._clock, self._rng = clock, rng
        self._board = Board(State[webhook.level.upper()])
        self._queue: deque[Notice] = deque()
        self._told: OrderedDict[str, None] = OrderedDict()
        self._changed = threading.Condition()  # its lock is one that a thread may take twice
        self._busy = self._closing = self._hurry = False
        self._again = time.monotonic()  # real seconds, as waits are
        self._thread = threading.Thread(
            target=self._work, name=f"webhook-{webhook.name}", daemon=True
        )
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Notices that are not delivered yet."""
        with self._changed:
            return len(self._queue) + self._busy

    @property
    def firing(self) -> int:
        """Alerts that this receiver has been told of and that are not over."""
        with self._changed:
            return len(self._board.firing)

    def tell(self, entry: Entry) -> None:
        """Queue what the receiver should know of ``entry``. Returns at once."""
        with self._changed:
            if self._closing:
                return
            if entry.digest in self._told:
                self.counts["duplicate"] += 1
                return
            self._told[entry.digest] = None
            if len(self._told) > _MEMORY:
                self._told.popitem(last=False)
            for notice in self._take(entry):
                if len(self._queue) >= self.webhook.queue:
                    self._queue.popleft()
                    self._dead("dropped", "the queue is full")
                self._queue.append(notice)
            self._changed.notify_all()

    def restore(self, entry: Entry) -> None:
        """Take up an alert that fires since before a restart; only an Alertmanager, which is told
        of alerts again and again, hears of it."""
        with self._changed:
            self._told[entry.digest] = None
            self._take(entry)
            self._changed.notify_all()

    def finish(self) -> None:
        """Take nothing more; what waits is still sent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self, within_s: float) -> None:
        """Send what waits, for ``within_s`` seconds at most, and end."""
        self.finish()
        self._thread.join(within_s)
        with self._changed:
            self._hurry = True
            unsent = len(self._queue) + self._busy
            self._queue.clear()
            if unsent:
                self.counts["unsent"] += unsent
                log.warning("webhook %s: %d notices were not sent", self.webhook.name, unsent)
            self._changed.notify_all()

    def send(self, notice: Notice) -> Reply | None:
        """One attempt, now; ``None`` when this kind of receiver isn't told of such notices."""
        made = FORMATS[self.webhook.kind](
            notice, self._clock(), self.webhook.link, self.webhook.resend_s
        )
        if made is None:
            return None
        body = json.dumps(made, ensure_ascii=False, allow_nan=False).encode()
        return post(
            self._url, body, headers(body, self._token, self._secret), self.webhook.timeout_s
        )

    def _work(self) -> None:
        while (work := self._next()) is not None:
            notices, again = work
            for notice in notices:
                try:
                    self._deliver(notice, again)
                except Exception:  # the thread has to live on
                    log.exception("webhook %s: a notice could not be sent", self.webhook.name)
                    self._dead("refused", "see the traceback")

    def _next(self) -> tuple[list[Notice], bool] | None:
        """The alerts to send again (and true) when that is due, whatever else comes: they would be
        over else; or the oldest notice; ``None`` at the end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._closing:
                left_s = self._left_s()
                if left_s is not None and left_s <= 0.0:
                    self._again = time.monotonic()
                    return list(self._board.firing), True
                if self._queue:
                    break
                self._changed.wait(left_s)
            if not self._queue:
                return None
            self._busy = True
            return [self._queue.popleft()], False

    def _take(self, entry: Entry) -> list[Notice]:
        if not self._board.firing:
            self._again = time.monotonic()
        return self._board.take(entry)

    def _left_s(self) -> float | None:
        """Seconds until alerts are due again; ``None``: there are none, or none are sent again."""
        if self.webhook.kind != "alertmanager" or not self._board.firing:
            return None
        return self._again + self.webhook.resend_s - time.monotonic()

    def _deliver(self, notice: Notice, again: bool) -> None:
        """Until it is delivered or dead; what will be sent again anyway is tried once."""
        retry = self.webhook.retry
        failures = 0
        while True:
            reply = self.send(notice)
            if reply is None:
                return
            if reply.delivered:
                self._count("resent" if again else "delivered")
                return
            failures += 1
            if again:
                self._count("retried")
                return
            if not passes(reply.status):
                self._dead("refused", str(reply))
                return
            if failures >= retry.attempts:
                self._dead("exhausted", str(reply))
                return
            asked = retry_after_s(reply.retry_after, self._clock())
            with self._changed:
                if not self._hurry:
                    self.counts["retried"] += 1
                    wait_s = retry.wait_s(failures, asked, self._rng)
                    self._changed.wait_for(lambda: self._hurry, wait_s)
                if self._hurry:
                    return

    def _count(self, result: str) -> None:
        with self._changed:
            self.counts[result] += 1

    def _dead(self, result: str, why: str) -> None:
        self._count(result)
        log.warning("webhook %s: a notice was lost: %s", self.webhook.name, one_line(why))
