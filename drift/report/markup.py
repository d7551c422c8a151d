"""Small pieces of HTML. Every text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from drift.report.data import Table
from drift.report.style import Json


class Figures:
    """Collects figures while sections are written; each gets a place on the page."""

    def __init__(self) -> None:
        self.specs: dict[str, Json] = {}

    def place(self, spec: Json, title: str, text: str, caption: str = "") -> str:
        """HTML for one figure; ``text`` says in words what it shows."""
        name = f"figure-{len(self.specs) + 1}"
        self.specs[name] = spec
        below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        return (
            f'<figure><h3>{escape(title)}</h3><div class="plot" id="{name}" role="img" '
            f'aria-label="{escape(text, quote=True)}" '
            f'style="height:{spec["layout"]["height"]}px"></div>{below}</figure>'
        )


def section(title: str, html: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{html}</section>"


def legend(*entries: tuple[str, str, str]) -> str:
    items = "".join(
        f'<li><span class="key {shape} k-{colour}" aria-hidden="true"></span>{escape(text)}</li>'
        for shape, colour, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def table(data: Table, text_cells: bool = False) -> str:
    """A table that scrolls sideways on its own; a tab inside a cell sets off a quieter remark."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in data.columns)
    rows = "".join(f"<tr>{row(cells)}</tr>" for cells in data.rows)
    caption = f"<caption>{escape(data.caption)}</caption>" if data.caption else ""
    kind = "text" if text_cells else "numbers"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(data.title)}">'
        f'<table class="{kind}">{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def row(cells: Sequence[str]) -> str:
    html = f'<th scope="row">{escape(cells[0])}</th>'
    for cell in cells[1:]:
        value, _, remark = cell.partition("\t")
        quiet = f" <small>{escape(remark)}</small>" if remark else ""
        html += f"<td>{escape(value)}{quiet}</td>"
    return html
