"""The gate on live traffic: both rankers on the same outcomes, which neither was trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from training.gate.checks import checks
from training.gate.config import GateConfig
from training.gate.judge import forecasts_of_both, untold
from training.gate.registered import CHAMPION, Registered, check_move
from training.gate.rows import SEEN_FILE, unseen
from training.gate.verdict import Verdict
from training.sources import Example
from training.sources.lineage import Lineage
from training.sources.recent import Recent, arrival_of

#: What the verdict calls its rows.
KIND = "recent outcomes"


def judge_recent(
    registry: Registered,
    name: str,
    version: str,
    recent: Recent,
    *,
    alias: str = CHAMPION,
    config: GateConfig | None = None,
) -> Verdict:
    """Whether ``version`` may take the place of the version that ``alias`` stands for, by what came
    of ``recent`` requests.

    A version that was trained on outcomes is asked only about those that arrived after the last one
    that chose anything about it: those that chose its half-life and calibrated it favour it. Where
    fewer than ``config.slice_rows`` came after them, they are asked about too, and the verdict says
    so; coverage is never counted on them. Rows that either was trained on (by hashes of prompts and
    conversations) are left out, of the others the newest ``config.recent_rows`` are taken. Checks
    are those of :func:`training.gate.judge`, and the order and efficiency of
    tenants and lanes. Raises ``ValueError`` for an unknown version or a reserved alias.
    """
    check_move(registry, name, version, alias)
    config = config or GateConfig()
    champion = registry.resolve(name, alias)

    def found(**parts: object) -> Verdict:
        return Verdict(name, version, alias, champion, **{"kind": KIND, **parts})  # type: ignore[arg-type]

    if champion is None or champion == version:
        return found()
    new, old = (registry.run_tags(name, v) for v in (version, champion))
    for number, tags in ((version, new), (champion, old)):
        if (served := tags.get("served_model", "")) != recent.served_model:
            return found(
                obstacle=f"version {number} forecasts {served}, the outcomes are those of "
                f"{recent.served_model}"
            )
    lineage = Lineage.of(new)
    trained_on = []
    for number in (version, champion):
        one = registry.attached(name, number, SEEN_FILE)
        if one is None:
            return found(obstacle=untold(number))
        trained_on.append(one)

    def since(arrival: float) -> tuple[list[Example], list[Example]]:
        """Rows that came later, and those of them that neither was trained on."""
        held = recent.after(arrival)
        rows: list[Example] = held
        for one in trained_on:
            rows = unseen(rows, one)
        return held, rows

    held, rows = since(lineage.calibrated_until if lineage else -math.inf)
    if lineage is not None and len(rows) < config.slice_rows:
        held, rows = since(lineage.trained_until)
    left_out = len(held) - len(rows)
    rows = rows[-config.recent_rows :]
    if len(rows) < config.least_rows:
        return found(
            rows=len(rows),
            left_out=left_out,
            obstacle=_too_few(recent, lineage, version, len(held), len(rows), config),
        )
    told = forecasts_of_both(registry, name, champion, version, rows)
    if told is None:
        return found(rows=len(rows), left_out=left_out)
    fresh = _fresh(rows, lineage)
    tuned = 0 if fresh is None else int(np.count_nonzero(~fresh))
    return found(
        rows=len(rows),
        left_out=left_out,
        checks=checks(*told, rows, config, fresh=fresh),
        kind=f"{KIND} ({tuned} of them tuned version {version}: too few came later)"
        if tuned
        else KIND,
    )


def _fresh(rows: Sequence[Example], lineage: Lineage | None) -> np.ndarray | None:
    """Rows that arrived after the last one that the version was calibrated on."""
    if lineage is None:
        return None
    return np.array([arrival_of(e) > lineage.calibrated_until for e in rows], np.bool_)


def _too_few(
    recent: Recent,
    lineage: Lineage | None,
    version: str,
    held: int,
    rows: int,
    config: GateConfig,
) -> str:
    since = ""
    if lineage is not None:
        until = datetime.fromtimestamp(lineage.trained_until, UTC).isoformat(timespec="seconds")
        since = f" arrived after {until}, the last that version {version} was trained on, of which"
    return (
        f"{recent.found}; {held:,} of these{since or ','} {rows:,} were in neither version's "
        f"training data: too few to compare; at least {config.least_rows} are needed, so wait for "
        f"more traffic"
    )
