"""How the delivery of realised lengths goes, for Prometheus."""

from __future__ import annotations

from engine.readings import Reading
from serving.reporter import Reporter

HELP = {
    "shortfirst_report_outcomes_delivered_total": "Realised lengths that the rank service took.",
    "shortfirst_report_outcomes_dropped_total": "Realised lengths lost to a full buffer, or refused"
    " by the rank service.",
    "shortfirst_report_outcomes_waiting": "Realised lengths that are still to be delivered.",
}


def readings(reporter: Reporter) -> list[Reading]:
    """Of one reporter, by the names of ``HELP``."""
    values = (reporter.delivered, reporter.dropped, reporter.waiting)
    return [Reading(name, float(value)) for name, value in zip(HELP, values, strict=True)]
