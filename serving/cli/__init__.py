"""The ``shortfirst`` command. A sub-command's module is imported when that command runs."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from serving.cli import console

#: In the order in which help lists them: first look, ranker, services, measurement.
COMMANDS = (
    "demo",
    "up",
    "train",
    "evaluate",
    "label",
    "promote",
    "rollback",
    "rank",
    "serve",
    "engine",
    "bench",
    "drift",
)


class _LazyGroup(TyperGroup):
    """Finds a command in the module of its name: ``app`` when it is a group, else a function."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"serving.cli.{cmd_name}")
        group = getattr(module, "app", None)
        if group is None:
            group = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            group.command(cmd_name)(getattr(module, cmd_name))
        command = typer.main.get_command(group)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    # Pretty tracebacks print local variables, and those hold prompts.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"shortfirst {version('shortfirst')}")
        raise typer.Exit


@app.callback()
def shortfirst(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and end.")
    ] = False,
) -> None:
    """Learned output-length ranking for LLM serving: train it, serve it, schedule by it, notice
    when it stops being true."""


def main() -> None:
    """Run the command line. A user's mistake gives one line and status 2, never a traceback.

    ``SHORTFIRST_TRACEBACK=1`` shows where such an error came from.
    """
    try:
        app(prog_name="shortfirst")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        explained = console.explain(error)
        if explained is None or os.environ.get("SHORTFIRST_TRACEBACK"):
            raise
        console.fail(explained.message)
        sys.exit(explained.status)
