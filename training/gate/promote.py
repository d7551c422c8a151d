"""Which version serves: an alias, moved with a reason and a record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from training.gate.history import FORCE, PROMOTE, ROLLBACK, Promotion, history, served
from training.gate.registered import CHAMPION, Registered, check_move
from training.gate.verdict import Verdict

_LONGEST_REASON = 1000  # a tag of MLflow holds 5,000 characters


class GateError(ValueError):
    """The gate refused; ``verdict`` has the table of reasons."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(
            f"version {verdict.version} of {verdict.name} is not promoted over version "
            f"{verdict.champion}: {verdict.summary}; promote it anyway with --force"
        )


class OvertakenError(ValueError):
    """Somebody else moved the alias at the same moment, and theirs stands."""


def promote(
    registry: Registered, verdict: Verdict, *, by: str, now: datetime, force: bool = False
) -> Promotion:
    """Let the alias stand for the version that was judged; appended to the history.

    The table of reasons is kept with the version's run, whatever it says. ``force`` moves the
    alias in spite of it. Promoting what serves already changes nothing. Raises :class:`GateError`
    when the gate was against it, and :class:`OvertakenError` when the alias moved meanwhile.
    """
    name, version, alias = verdict.name, verdict.version, verdict.alias
    kind = PROMOTE if verdict.passed else FORCE
    why = verdict.summary[:_LONGEST_REASON]
    move = Promotion(0, name, alias, version, verdict.champion, kind, by, _utc(now), why)
    if verdict.champion == version:
        return move
    if verdict.champion is not None:
        stem = f"{move.at.replace(':', '')}-{'passed' if verdict.passed else 'refused'}"
        registry.attach(name, version, f"gate/{stem}.json", verdict.as_dict())
    if not verdict.passed and not force:
        raise GateError(verdict)
    if (standing := registry.resolve(name, alias)) != verdict.champion:
        raise OvertakenError(
            f"{name}: {alias} moved to version {standing} since version {version} was compared "
            f"with version {verdict.champion}; compare again"
        )
    return _append(registry, move)


def promote_if_passed(
    registry: Registered, verdict: Verdict, *, by: str, now: datetime, force: bool = False
) -> Promotion | None:
    """:func:`promote`, or ``None`` when the gate was against it: the verdict says why."""
    with suppress(GateError):
        return promote(registry, verdict, by=by, now=now, force=force)
    return None


def rollback(
    registry: Registered,
    name: str,
    *,
    by: str,
    now: datetime,
    alias: str = CHAMPION,
    to: str = "",
) -> Promotion:
    """Move ``alias`` back to the version before, or to the version ``to``; no gate, for there may
    be no time. Again and again it walks further back. Raises ``ValueError`` when nothing is there
    to go back to, and as :func:`promote` does."""
    now_serving = registry.resolve(name, alias)
    past = served(history(registry.tags(name)).of(alias))
    if now_serving is not None and (not past or past[-1] != now_serving):
        past.append(now_serving)  # somebody moved the alias by other means
    there = registry.versions(name)
    before = [v for v in past[:-1] if v in there]
    target = to or (before[-1] if before else "")
    if not target:
        raise ValueError(f"{name}: no version served before version {now_serving or '-'}")
    check_move(registry, name, target, alias)
    if target == now_serving:
        raise ValueError(f"{name}: version {target} serves already")
    move = Promotion(0, name, alias, target, now_serving, ROLLBACK, by, _utc(now), "not asked")
    return _append(registry, move)


def _append(registry: Registered, planned: Promotion) -> Promotion:
    """Write the history first: a move that nobody recorded is worse than a record of one that
    failed.

    MLflow has no transactions. Entries never overwrite each other, so whoever writes at the same
    time sees the other's, here or when looking again after the alias has moved, and all agree on
    the one that stands.
    """
    name, alias = planned.name, planned.alias
    number, before = history(registry.tags(name)).end
    move = replace(planned, number=number, before=before)
    registry.set_tag(name, move.key, move.text)
    for _ in range(2):
        moves = history(registry.tags(name)).of(alias)
        registry.set_alias(name, alias, moves[-1].version)
    if move not in moves:
        raise OvertakenError(
            f"{name}: {moves[-1].by} moved {alias} to version {moves[-1].version} at the same "
            f"moment; look at shortfirst promote {name} and try again"
        )
    return move


def _utc(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="seconds")
