"""Options of ``shortfirst serve`` about retraining by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from drift.retraining import RetrainConfig

_PANEL = "Retraining by itself"

Retrain = Annotated[
    bool,
    typer.Option(
        "--retrain",
        help="When a version is degraded as a whole: train on recent outcomes in the background, "
        "compare on live traffic, ask the gate, promote. Needs --retain-prompts.",
        rich_help_panel=_PANEL,
    ),
]
Gather = Annotated[
    int,
    typer.Option(
        "--retrain-gather",
        help="Outcomes since the alert that training waits for.",
        rich_help_panel=_PANEL,
    ),
]
Shadow = Annotated[
    int,
    typer.Option(
        "--retrain-shadow",
        help="Outcomes that the challenger is compared on before the gate is asked; 0: at once.",
        rich_help_panel=_PANEL,
    ),
]
Cooldown = Annotated[
    float,
    typer.Option(
        "--retrain-cooldown",
        help="Hours from one attempt to the next; one that brings nothing doubles it.",
        rich_help_panel=_PANEL,
    ),
]
ConfigName = Annotated[
    str,
    typer.Option(
        "--retrain-config",
        help="A shipped configuration or a TOML file for shortfirst train.",
        rich_help_panel=_PANEL,
    ),
]
HalfLife = Annotated[
    float,
    typer.Option(
        "--retrain-half-life",
        help="Outcomes after which one counts half in training; 0: as train chooses.",
        rich_help_panel=_PANEL,
    ),
]


def chosen_retraining(
    on: bool,
    retained: bool,
    reloads: bool,
    *,
    gather: int,
    shadow: int,
    cooldown_h: float,
    config: str,
    half_life: float,
) -> RetrainConfig | None:
    """``None`` when it is off. Raises ``ValueError`` when what it needs is not there."""
    from drift.retraining import RetrainConfig

    if not on:
        return None
    if not retained:
        raise ValueError(
            "--retrain: there is nothing to train on, for prompts are not retained; switch that on "
            "with --retain-prompts DAYS"
        )
    if not reloads:
        raise ValueError("--retrain: needs --reload-seconds above 0 to serve what it trains")
    return RetrainConfig(
        gather=gather,
        shadow=shadow,
        cooldown_s=cooldown_h * 3600.0,
        config=config,
        half_life=half_life,
    )
