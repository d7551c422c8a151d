"""Options that may stand alone: ``--from-outcomes`` as well as ``--from-outcomes STORE``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperCommand


class OptionalValues(TyperCommand):
    """A command whose options with a metavar in brackets, such as ``[STORE]``, may be given without
    a value; it is empty then. What follows such an option is its value unless it begins with a
    dash."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {
            name
            for param in self.params
            if (getattr(param, "metavar", None) or "").startswith("[")
            for name in param.opts
        }
        return super().parse_args(ctx, completed(args, names))


def completed(args: Sequence[str], names: Collection[str]) -> list[str]:
    """``args`` with an empty value for each of ``names`` that has none."""
    found = list(args)
    for i, arg in enumerate(args):
        if arg == "--":
            break
        alone = i + 1 == len(args) or args[i + 1].startswith("-")
        if arg in names and alone:
            found[i] = f"{arg}="
    return found
