"""Options that the commands of the bench share, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from engine.comparison import Spread
    from engine.engine_profiles import EngineProfile

Profile = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help="The engine: smollm2-cpu, llama3-8b-a100, llama3-8b-h100, llama3-70b-8xa100, toy-32, "
        "toy-64, toy-128, or a .toml or .json file that bench calibrate wrote.",
    ),
]
Seeds = Annotated[int, typer.Option("--seeds", help="Realisations of the traffic.")]
Jobs = Annotated[
    int, typer.Option("--jobs", help="Simulations at once, a process each; 0: one per core.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Tau = Annotated[
    float, typer.Option("--tau", help="Kendall tau-b of the forecasts with the true lengths.")
]


def profile_of(text: str) -> EngineProfile:
    """By name, or from a file. Raises ``UserError`` naming the option."""
    from engine.engine_profiles import load, named
    from serving.cli.console import UserError

    path = Path(text)
    try:
        return load(path) if path.suffix in (".toml", ".json") else named(text)
    except (ValueError, OSError) as error:
        raise UserError(f"--profile: {error}") from None


def seeds_of(count: int) -> range:
    """Raises ``UserError`` below one."""
    from serving.cli.console import UserError

    if count < 1:
        raise UserError(f"--seeds must be at least 1, got {count}")
    return range(count)


def jobs_of(count: int) -> int:
    """Raises ``UserError`` below zero."""
    from engine.bench.parallel import default_jobs
    from serving.cli.console import UserError

    if count < 0:
        raise UserError(f"--jobs must be at least 0, got {count}")
    return count or default_jobs()


def spread(value: Spread, digits: int = 2, unit: str = "") -> str:
    """``median (p10-p90)``; one number when they are all the same."""
    low, mid, high = (f"{number:,.{digits}f}" for number in (value.p10, value.median, value.p90))
    return f"{mid}{unit}" if low == high else f"{mid}{unit} ({low}-{high})"


def share(value: Spread, digits: int = 1) -> str:
    """The same in percent."""
    scaled = type(value)(value.median * 100.0, value.p10 * 100.0, value.p90 * 100.0)
    return spread(scaled, digits, "%")


def choice(value: str, known: Sequence[str], option: str) -> str:
    """``value``. Raises ``UserError`` naming the option and its values when it is none of them."""
    from serving.cli.console import UserError

    if value not in known:
        raise UserError(f"{option} must be one of {', '.join(known)}, got {value!r}")
    return value


def plural(count: int, what: str) -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Comma-separated numbers. Raises ``UserError`` naming the option."""
    from serving.cli.console import UserError

    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise UserError(f"{option} must be numbers separated by commas, got {text!r}") from None


def report(**parts: Any) -> dict[str, Any]:
    """Dataclasses, also in lists and dictionaries, as JSON's objects."""
    return {name: _plain(value) for name, value in parts.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return asdict(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def say(line: str) -> None:
    """Print a sentence: broken between words on a terminal, and not at all in a pipe."""
    import sys

    from rich.console import Console
    from rich.text import Text

    Console(highlight=False, soft_wrap=not sys.stdout.isatty()).print(Text(line))


def verdict(met: bool, text: str) -> str:
    """A line that says whether a target was met."""
    return f"{'met' if met else 'MISSED'}: {text}"
