"""The clock of a reporter against ours."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from drift.opened import Open
from ranker.types import Outcome

#: Seconds by which a clock may be off unnoticed: less than that is the way a message takes.
TOLERANCE = 1.0

_MEMORY = 64

#: A clock that is this much less ahead than it was has been set: no message takes so many seconds.
_STEP = 300.0


class ReporterClock:
    """How far one reporter's clock is ahead (behind: below zero), from what it sends.

    A message takes time, so it is sent at the latest when it comes: the time of sending less that
    of arrival here is never more than the clock is ahead, and the largest of late comes closest. A
    reporter that doesn't say when it sent shows a clock ahead alone, by what has not ended yet.
    """

    def __init__(self) -> None:
        self._ahead: deque[float] = deque(maxlen=_MEMORY)

    def read(self, sent: float | None, newest: float | None, received: float) -> None:
        """A message sent at ``sent``, whose newest outcome ended at ``newest``, came.

        What was known of a clock that has been set back since is forgotten.
        """
        if sent is not None:
            ahead = sent - received
            if self._ahead and max(self._ahead) - ahead > _STEP:
                self._ahead.clear()
            self._ahead.append(ahead)
        elif newest is not None:
            self._ahead.append(max(0.0, newest - received))

    @property
    def ahead(self) -> float:
        """Seconds; 0 when the clock is about right."""
        most = max(self._ahead, default=0.0)
        return most if abs(most) > TOLERANCE else 0.0


def put_right(outcomes: Sequence[Outcome], ahead: float, received: float) -> list[Outcome]:
    """Times as our clock would have told them; how long a request took is not touched.

    One that would end after it was ``received`` is moved to then, whatever its clock: an arrival in
    the future would make all that come before it late.
    """
    return [_moved(o, _off(o, ahead, received)) for o in outcomes]


def _off(outcome: Outcome, ahead: float, received: float) -> float:
    """Seconds by which its times are ahead: as its clock is, unless it would end in the future."""
    off = outcome.finished - received
    return off if off - ahead > TOLERANCE else ahead


def _moved(outcome: Outcome, ahead: float) -> Outcome:
    if ahead == 0.0:
        return outcome
    return replace(outcome, arrival=outcome.arrival - ahead, finished=outcome.finished - ahead)


def put_right_open(requests: Sequence[Open], ahead: float) -> list[Open]:
    """The same for requests under way."""
    if ahead == 0.0:
        return list(requests)
    return [replace(o, arrival=o.arrival - ahead, seen=o.seen - ahead) for o in requests]
