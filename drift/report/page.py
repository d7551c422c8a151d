"""The page: sections, tables and figures put together into one file that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path

from drift.files import write_whole
from drift.report import markup, sections
from drift.report.data import ReportData
from drift.report.markup import Figures
from drift.report.style import Json

#: What the page may load: only what it carries itself.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)


def render(data: ReportData) -> str:
    """The whole page as HTML, about 5 MB, most of it the plotting library. Pure."""
    figures = Figures()
    body = "\n".join(
        part
        for part in (
            sections.tiles(data),
            sections.policies_section(figures, data),
            sections.forecasts_section(figures, data),
            *(sections.drift_section(figures, section) for section in data.drift),
            sections.efficiency_section(figures, data),
            *(markup.section(t.title, markup.table(t)) for t in data.tables),
            sections.notes_section(data),
        )
        if part
    )
    return document(data.title, data.subtitle, data.created, body, figures)


def document(title: str, subtitle: str, created: str, body: str, figures: Figures) -> str:
    """A page of ``body``, which is HTML, in the style of the report, with the library that draws
    ``figures``. The other texts are escaped. Nothing is loaded from elsewhere. Pure."""
    assets = files("drift.report") / "assets"
    css = "".join(
        (assets / name).read_text(encoding="utf-8") for name in ("tokens.css", "page.css")
    )
    script = (assets / "page.js").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{css}</style>
</head>
<body>
<header>
<div><h1>{escape(title)}</h1><p class="subtitle">{escape(subtitle)}</p></div>
<button id="theme" type="button" hidden>Theme</button>
</header>
<main>
{body}
</main>
<footer>Written by shortfirst, {escape(created)}. No prompt text; nothing is loaded.</footer>
<noscript><p class="notice">The figures need JavaScript; tables and texts don't.</p></noscript>
<script type="application/json" id="figures">{_json(figures.specs)}</script>
{_plotly() if figures.specs else ""}
<script>{script}</script>
</body>
</html>
"""


def write(data: ReportData, path: Path) -> Path:
    """Write :func:`render`'s page to ``path``, whole or not at all; return ``path``."""
    return write_whole(path, render(data))


def _json(figures: dict[str, Json]) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(figures, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>"
