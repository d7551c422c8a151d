"""What commands share: tables or JSON, progress on terminals, one line for a user's mistake."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drift.plain import one_line
from serving.cli.faults import service_fault


class UserError(Exception):
    """Something the user can put right. ``main`` prints the message and exits with ``status``."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


#: Which extra brings a module that a command could not import.
_EXTRAS = {
    "torch": "engine",
    "accelerate": "engine",
    "transformers": "engine",
    "gguf": "engine",
    "grpc": "serve",
    "google": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "h11": "serve",
    "prometheus_client": "serve",
    "mlflow": "train",
    "httpx": "train",
    "matplotlib": "train",
    "onnx": "train",
    "onnxruntime": "train",
    "psutil": "train",
    "sklearn": "train",
    "lightgbm": "train",
    "scipy": "train",
    "pandas": "train",
    "pyarrow": "train",
    "datasets": "train",
    "safetensors": "train",
    "tokenizers": "train",
    "yaml": "train",
    "evidently": "drift",
    "plotly": "drift",
    "opentelemetry": "tracing",
}


def explain(error: BaseException) -> UserError | None:
    """The user's side of an error, or ``None`` when it is a fault of the program."""
    if isinstance(error, UserError):
        return error
    if (fault := service_fault(error)) is not None:
        return UserError(*fault)
    if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
        return UserError(str(error))
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra:
            return UserError(
                f"{error.name} is not installed; install it with pip install 'shortfirst[{extra}]'"
            )
        return None
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return UserError(f"{where}{error.strerror}")
    return None


def fail(message: str) -> None:
    """Print ``message`` to standard error, marked as an error."""
    stderr = Console(stderr=True, soft_wrap=True, highlight=False)
    stderr.print(Text("error: ", style="bold red") + Text(message))


def note(message: str) -> None:
    """Print a line for people, to standard error so that ``--json`` output stays clean."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(message))


def print_json(value: object) -> None:
    """Print ``value`` as :func:`json_text` writes it."""
    sys.stdout.write(json_text(value))


def json_text(value: object) -> str:
    """``value`` as lines of JSON; NaN and infinities, which JSON lacks, become null."""
    return json.dumps(_jsonable(value), indent=2, ensure_ascii=False) + "\n"


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    caption: str = "",
) -> None:
    """Print a table; numbers are right-aligned. Cells are text as it stands, never markup, but for
    control characters other than line ends: they show as escapes and command no terminal."""
    table = Table(title=title or None, caption=caption or None, title_justify="left")
    for i, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[i], int | float | None) for row in rows)
        table.add_column(Text(column), justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(Text("\n".join(map(one_line, cell(value).split("\n")))) for value in row))
    # A pipe has no width; 80 columns would break the lines that somebody wants to grep.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def show(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    as_json: bool,
    title: str = "",
    caption: str = "",
) -> None:
    """Print rows as a table, or as a JSON list of objects keyed by ``columns``."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows, title=title, caption=caption)


def cell(value: object) -> str:
    """How a table writes a value: ``-`` for nothing, four significant digits for fractions."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


#: Units of work from which a pipe is told how far it is.
_LONG = 1000


class Bar(Protocol):
    """One line of progress."""

    def update(self, done: float) -> None:
        """``done`` units of the total so far."""
        ...

    def advance(self, more: float = 1) -> None: ...


@dataclass(slots=True)
class _PlainBar:
    """Progress on a pipe: a line when it starts, at every fifth of long work, when it ends."""

    label: str
    total: float | None
    done: float = 0.0

    def update(self, done: float) -> None:
        before, self.done = self.done, done
        if self.total is None or self.total < _LONG or done >= self.total:
            return
        if int(5 * done / self.total) > int(5 * before / self.total):
            note(f"{self.label}: {done / self.total:.0%}")

    def advance(self, more: float = 1) -> None:
        self.update(self.done + more)


@contextmanager
def progress(label: str, total: float | None = None, unit: str = "") -> Iterator[Bar]:
    """A progress bar on a terminal, plain lines elsewhere; both go to standard error.

    ``total`` counts ``unit``; ``None`` when it is not known.
    """
    stderr = Console(stderr=True, highlight=False)
    if not stderr.is_terminal:
        note(f"{label} ...")
        bar = _PlainBar(label, total)
        yield bar
        count = f": {cell(bar.done)} {unit}".rstrip() if bar.done else ""
        note(f"{label}: done" if not count else f"{label}{count}, done")
        return
    with _terminal_bar(stderr, label, total, unit) as shown:
        yield shown


@contextmanager
def _terminal_bar(stderr: Console, label: str, total: float | None, unit: str) -> Iterator[Bar]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    of_total = "" if total is None else "/{task.total:,.0f}"
    count = TextColumn("{task.completed:,.0f}" + of_total + " {task.fields[unit]}")
    columns = [TextColumn("{task.description}"), BarColumn(), count]
    with Progress(*columns, TimeElapsedColumn(), console=stderr) as shown:
        task = shown.add_task(label, total=total, unit=unit)

        class _RichBar:
            def update(self, done: float) -> None:
                shown.update(task, completed=done)

            def advance(self, more: float = 1) -> None:
                shown.advance(task, more)

        yield _RichBar()
        done = shown.tasks[task].completed
        shown.update(task, completed=total or done, total=total or max(done, 1))


def _jsonable(value: object) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return value
