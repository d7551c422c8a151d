"""``shortfirst engine --config`` and ``--check``: a file of options, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import typer

from serving.cli import console

if TYPE_CHECKING:
    from serving.engine_file import EngineFile
    from serving.engine_setup import EngineSetup

_FILE = "shortfirst.engine_file"
#: What a file may not decide: the command is asked these.
_ASKED = ("ctx", "config", "check", "as_json", "return")


def load(ctx: typer.Context, path: Path | None) -> Path | None:
    """Callback of ``--config``: what the file says becomes the default of each option.

    Raises ``ValueError`` naming the file and the key.
    """
    if path is not None:
        from serving.cli.engine import engine
        from serving.engine_file import read_engine_file

        file = read_engine_file(path, kinds(engine))
        ctx.meta[_FILE] = file
        ctx.default_map = dict(file.options)
    return path


def file_of(ctx: typer.Context) -> EngineFile:
    """The file that was given, or an empty one."""
    from serving.engine_file import EngineFile

    found = ctx.meta.get(_FILE)
    return found if isinstance(found, EngineFile) else EngineFile()


def kinds(command: Callable[..., None]) -> dict[str, str]:
    """What a file's value must be for each option of ``command``."""
    from serving.config_keys import FLAG, NUMBER, TEXT, TEXTS, WHOLE

    found = {bool: FLAG, int: WHOLE, float: NUMBER, str: TEXT, Path: TEXT, list: TEXTS}
    hints = get_type_hints(command)
    return {name: found[_base(hint)] for name, hint in hints.items() if name not in _ASKED}


def _base(hint: Any) -> type:
    """``list`` of ``list[str] | None``."""
    if NoneType in get_args(hint):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return list if get_args(hint) else hint


def show(ctx: typer.Context, setup: EngineSetup, *, as_json: bool) -> None:
    """Print what the engine would run with, and where each option came from."""
    from serving.cli.engine import engine

    names = kinds(engine)
    values = {name: ctx.params[name] for name in names if name in ctx.params}
    sources = {name: _source(ctx, name) for name in values}
    lanes, tenants = _lanes(setup), _tenants(setup)
    if as_json:
        options = {name: _plain(value) for name, value in values.items()}
        console.print_json(
            {"options": options, "sources": sources, "lanes": lanes, "tenants": tenants}
        )
        return
    rows = [(name, _text(value), sources[name]) for name, value in values.items()]
    console.print_table(("option", "value", "from"), rows)
    columns = tuple(lanes[0])
    console.print_table(
        columns, [tuple(map(_text, lane.values())) for lane in lanes], title="lanes"
    )
    if tenants:
        budgets = [(name, each["rate"], each["burst"]) for name, each in tenants.items()]
        console.print_table(("tenant", "tokens/s", "burst"), budgets, title="tenants")


def _lanes(setup: EngineSetup) -> list[dict[str, object]]:
    return [
        {
            **asdict(lane.config),
            "slo": {k: v for k, v in asdict(lane.config.slo).items() if v is not None},
            "policy": lane.policy,
            "setting": lane.setting.value,
        }
        for lane in setup.lanes
    ]


def _tenants(setup: EngineSetup) -> dict[str, dict[str, float]]:
    from serving.engine_options import EVERYBODY

    fairness = setup.fairness
    if fairness is None:
        return {}
    budgets = dict(fairness.budgets)
    if fairness.default_budget is not None:
        budgets[EVERYBODY] = fairness.default_budget
    return {name: asdict(budget) for name, budget in budgets.items()}


def _source(ctx: typer.Context, name: str) -> str:
    source = ctx.get_parameter_source(name)
    told: Mapping[str, str] = {"COMMANDLINE": "command line", "DEFAULT_MAP": "file"}
    return told.get(source.name, "default") if source is not None else "default"


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _text(value: object) -> str | None:
    """As a file would have it, but for lists; ``None`` where there is nothing."""
    if isinstance(value, dict):
        return ", ".join(f"{k} = {v:g}" for k, v in value.items()) or None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or None
    return None if value is None or value == "" else str(value)
