"""Options of what is done about drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from drift.acting.config import ActConfig

Act = Annotated[
    bool,
    typer.Option(
        "--act/--no-act",
        help="Leave forecasts that stopped coming true less say in the order, or none, by tenant "
        "and lane, until they do again; and fit quantiles to recent answers. Engines need no "
        "setting for it.",
    ),
]
ActFile = Annotated[
    Path | None,
    typer.Option(
        "--act-config",
        metavar="FILE",
        help="TOML file with a table act: shrink, fallback, recalibrate and early (true or false), "
        "warn and degraded (trust in those states) and caution (ahead of them), vouch, and a table "
        "act.recalibration.",
    ),
]


def chosen_actions(act: bool, file: Path | None) -> ActConfig | None:
    """``None``: nothing is done. Raises ``ValueError`` naming the setting, and for a file that is
    given in vain."""
    import tomllib

    from drift.acting.config import ActConfig

    if file is None:
        return ActConfig() if act else None
    if not act:
        raise ValueError("--act-config says how to act and --no-act not to: give one of them")
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"--act-config: {file.name} is no TOML file: {error}") from None
    table = values.get("act")
    if not isinstance(table, dict) or set(values) != {"act"}:
        raise ValueError(f"--act-config: {file.name} must hold one table, [act]")
    config = ActConfig.from_mapping(table)
    return config if config.any else None
