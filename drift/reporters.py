"""Who reports, how well its clock goes, and whether it leaves something out."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from drift.clocks import ReporterClock, put_right, put_right_open
from drift.delivery import Delivery
from drift.figures import ReporterRow
from drift.truncation import cut
from ranker.types import Outcome


class Reporter:
    """One of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = ReporterClock()
        self.outcomes = 0
        self.open = 0
        self.late = 0
        self.last = 0.0
        self._recent: deque[Outcome] = deque(maxlen=500)

    def took(self, new: Sequence[Outcome]) -> None:
        """Outcomes of it were stored."""
        self.outcomes += len(new)
        self._recent.extend(new)

    def row(self) -> ReporterRow:
        ahead = self.clock.ahead
        notes = []
        if ahead:
            way = "ahead" if ahead > 0.0 else "behind"
            notes.append(f"its clock is {abs(ahead):.1f} s {way}; times are put right")
        if self.late > 0.05 * max(self.outcomes, 20):
            notes.append(f"{self.late} of its outcomes came too late for their place in order")
        found = cut(self._recent)
        if found is not None:
            notes.append(
                f"none of its last {len(self._recent)} outcomes is longer than {found[0]} tokens, "
                f"though its forecasts expect {found[1]:.0f}: does it report the short ones alone?"
            )
        return ReporterRow(
            self.name, self.outcomes, self.open, self.late, ahead, self.last, tuple(notes)
        )


class Reporters:
    """At most ``most`` are remembered, the longest silent one goes. Not thread-safe."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._known: OrderedDict[str, Reporter] = OrderedDict()

    def of(self, name: str) -> Reporter:
        reporter = self._known.get(name)
        if reporter is None:
            reporter = self._known[name] = Reporter(name)
        self._known.move_to_end(name)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return reporter

    def put_right(self, delivery: Delivery, received: float) -> tuple[Delivery, int]:
        """``delivery`` with its times by our clock, and how many of its outcomes that changed.

        Those that give no name may be many: nothing is concluded from one about the next.
        """
        reporter = self.of(delivery.reporter)
        newest = max((o.finished for o in delivery.outcomes), default=None)
        if not delivery.reporter:
            reporter.clock = ReporterClock()
        reporter.clock.read(delivery.sent, newest, received)
        reporter.open, reporter.last = len(delivery.open), received
        ahead = reporter.clock.ahead
        right = Delivery(
            put_right(delivery.outcomes, ahead, received),
            put_right_open(delivery.open, ahead),
            delivery.reporter,
            delivery.sent,
            delivery.mended,
        )
        pairs = zip(delivery.outcomes, right.outcomes, strict=True)
        return right, sum(was is not now for was, now in pairs)

    def rows(self) -> tuple[ReporterRow, ...]:
        """The one that reported last first."""
        return tuple(reporter.row() for reporter in reversed(self._known.values()))
