"""``shortfirst drift history`` and ``events``: what happened, and what the monitor said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.drift_options import Events, Json, utc
from serving.cli.registry import TrackingUri

if TYPE_CHECKING:
    from drift.entry import Entry


def history(
    file: Annotated[
        Path | None, typer.Option("--history", help="SQLite file. Default: in the home folder.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest to show.")] = 40,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these: state, reference, scale, promotion, rollback, retraining, shadow, "
            "action. May be given several times."
        ),
    ] = None,
    served_model: Annotated[str, typer.Option(help="Only what is about this one.")] = "",
    promotions: Annotated[
        bool, typer.Option(help="Also what the model registry knows: who moved which alias, when.")
    ] = True,
    tracking_uri: TrackingUri = "",
    as_json: Json = False,
) -> None:
    """Who did what, when, on what grounds: states, promotions, rollbacks, actions; newest last.

    The rank service writes changes of state as they happen; each has its cause, evidence, the
    traffic that it is about, and what to do. Promotions come from the registry, where the gate's
    verdict is kept with them.
    """
    from drift.history import read_history
    from serving.cli.console import note, print_json, print_table
    from serving.paths import Home

    path = file or Home.resolve().history
    found = read_history(path, last, kind or (), served_model)
    if promotions:
        known = read_history(path)
        models = {entry.ranker: entry.served_model for entry in known if entry.ranker}
        found += [
            entry
            for entry in _promotions(models, tracking_uri)
            if not any(_same(entry, other) for other in known)
            and (not kind or entry.kind in kind)
            and (not served_model or entry.served_model == served_model)
        ]
    found = sorted(found, key=lambda entry: entry.at)[-last:]
    if as_json:
        print_json([entry.as_dict() for entry in found])
        return
    if not found:
        note(f"no history in {path}: shortfirst serve writes it")
        return
    print_table(
        ("when (UTC)", "who", "what", "about", "traffic", "ranker", "from", "to", "why"),
        [
            (
                utc(e.at), e.actor, e.kind, e.served_model or "-", e.label,
                f"{e.ranker} {e.version}".strip() or "-", e.before or "-", e.after or "-",
                "; ".join((*e.reasons, *filter(None, (e.gate,)))) or e.message or "-",
            )
            for e in found
        ],
    )  # fmt: skip


def events(
    events: Events = None,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest to show.")] = 20,
    alerts: Annotated[bool, typer.Option(help="Only those that alert.")] = False,
    as_json: Json = False,
) -> None:
    """What the monitor of the rank service said, newest last.

    From its log, one JSON object a line; shortfirst drift history also knows promotions.
    """
    from drift.entry import Entry
    from drift.events import read_events
    from serving.cli.console import note, print_json, print_table
    from serving.paths import Home

    path = events or Home.resolve().events
    found = [event for event in read_events(path) if event.alert or not alerts][-last:]
    if as_json:
        print_json([event.as_dict() for event in found])
        return
    if not found:
        note(f"no {'alerts' if alerts else 'events'} in {path}")
        return
    print_table(
        ("arrival (UTC)", "served model", "traffic", "ranker", "outcome", "event", "why"),
        [
            (
                utc(event.at),
                event.served_model,
                Entry.of(event).label,
                f"{event.ranker} {event.version}".strip() or "-",
                event.outcome,
                f"{event.previous} -> {event.state}" if event.kind == "state" else event.kind,
                "; ".join(event.reasons),
            )
            for event in found
        ],
    )


def _promotions(models: dict[str, str], tracking_uri: str) -> list[Entry]:
    """What the registry tells of the rankers ``models`` (to their served model); nothing when there
    is no registry."""
    from serving.cli.console import note
    from serving.paths import Home

    home = Home.resolve()
    local = not tracking_uri and not home.tracking_uri
    if not models or (local and not (home.root / "mlflow.db").exists()):
        return []
    from serving.cli.registry import open_registry
    from serving.moves import entry_of
    from training.gate import history as moves_of

    try:
        registry = open_registry(tracking_uri)
        found: list[Entry] = []
        for name, served_model in models.items():
            past = moves_of(registry.tags(name))
            if past.fault:
                note(f"{name}: {past.fault}")
            found += [entry_of(move, served_model) for move in past.moves]
        return found
    except ValueError as error:  # a ranker from a folder is in no registry
        note(f"without promotions: {error}")
        return []


def _same(one: Entry, other: Entry) -> bool:
    """Told by the registry and by whoever promoted it."""
    return (one.kind, one.ranker, one.version) == (
        other.kind, other.ranker, other.version,
    ) and abs(one.at - other.at) < 60.0  # fmt: skip
