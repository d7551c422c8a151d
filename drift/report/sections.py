"""The sections of the page; one without data is an empty text."""

from __future__ import annotations

from html import escape

from drift.cohorts import tau_of
from drift.report import forecasts, latency, markup, order, worth
from drift.report.data import DriftSection, Fact, ReportData, Table
from drift.report.markup import Figures
from drift.report.style import policy_style, seconds
from engine.metrics import summarise


def tiles(data: ReportData) -> str:
    facts = [*data.facts, *_worked_out(data)]
    if not facts:
        return ""
    tiles = "".join(
        f'<div class="tile"><dt>{escape(f.label)}</dt><dd>{escape(f.value)}</dd>'
        f"<p>{escape(f.note)}</p></div>"
        for f in facts
    )
    return f'<dl class="tiles">{tiles}</dl>'


def _worked_out(data: ReportData) -> list[Fact]:
    """Headline numbers that follow from the data."""
    facts: list[Fact] = []
    if len(data.runs) > 1:
        first, other = data.runs[0], data.runs[1]
        base, new = summarise(first.timings), summarise(other.timings)
        pair = f"{first.policy} {{}}, {other.policy} {{}}"
        for label, a, b in (
            ("Mean per-token latency", base.per_token.mean, new.per_token.mean),
            ("Mean E2EL", base.e2el.mean, new.e2el.mean),
            ("p99 E2EL", base.e2el.p99, new.e2el.p99),
        ):
            lower = latency.ratio([a, b], 1)
            value = f"{lower:.2g}× lower" if lower >= 1.05 else f"×{b / a:.2f}"
            facts.append(Fact(value, label, pair.format(seconds(a), seconds(b))))
    tau = tau_of(data.outcomes)
    if tau.defined and forecasts.scored(data.outcomes):
        facts.append(
            Fact(
                f"{tau.value:.2f}",
                "Kendall tau-b",
                f"95% interval {tau.low:.2f} to {tau.high:.2f}, {tau.n:,} answers",
            )
        )
    for section in data.drift:
        alert = next((e for e in section.events if e.alert), None)
        text = f"alert at outcome {alert.outcome:,}" if alert else "no alert"
        facts.append(Fact(str(section.state), f"Drift: {section.key.served_model}", text))
    return facts


def policies_section(figures: Figures, data: ReportData) -> str:
    if not data.runs:
        return ""
    plots = "".join(
        figures.place(
            latency.figure(data.runs, m), m.name, latency.describe(data.runs, m), m.meaning
        )
        for m in latency.MEASURES
    )
    keys = [(run.policy, *policy_style(run.policy, i)) for i, run in enumerate(data.runs)]
    legend = "".join(
        f'<li><svg width="34" height="10" aria-hidden="true"><line x1="1" y1="5" x2="33" y2="5" '
        f'class="c-{colour[1:]}" stroke-dasharray="{_DASHES.get(dash, "")}"/></svg>'
        f"{escape(policy)}</li>"
        for policy, colour, dash in keys
    )
    lead = "<p>Share of requests served within a time; further left is better.</p>"
    return markup.section(
        "Policies compared",
        f'<div class="beside"><div>{markup.table(latency.table(data.runs))}</div><div>'
        f'{lead}<ul class="legend">{legend}</ul><div class="plots">{plots}</div></div></div>',
    )


_DASHES = {"dash": "7 5", "dot": "2 4", "dashdot": "7 4 2 4", "longdash": "12 5"}


def forecasts_section(figures: Figures, data: ReportData) -> str:
    if not forecasts.scored(data.outcomes):
        return ""
    text = forecasts.describe(data.outcomes)
    legend = markup.legend(
        ("swatch", "accent", "forecast p10–p90"),
        ("line", "realised", "realised median"),
        ("dots", "points", "one answer"),
        ("dashed", "muted", "exactly as forecast"),
    )
    return markup.section(
        "Forecast against realised",
        f"<p>{escape(text)}</p>{legend}"
        '<div class="wide-narrow">'
        + figures.place(forecasts.figure(data.outcomes), "Tokens", text)
        + figures.place(
            forecasts.calibration(data.outcomes),
            "Calibration",
            "Observed share of answers at or below each forecast quantile over the promised share.",
            "On the dashed line a forecast quantile holds exactly as often as it promises.",
        )
        + "</div>",
    )


def drift_section(figures: Figures, section: DriftSection) -> str:
    if not section.points:
        return ""
    key, text = section.key, order.describe(section)
    ranker = f", ranker {key.ranker} {key.version}" if key.ranker else ""
    legend = markup.legend(
        ("swatch", "accent", "95% interval"),
        ("swatch", "warn", "warn"),
        ("swatch", "degraded", "degraded"),
        ("swatch", "fallback", "fcfs"),
    )
    html = f"<p>{escape(text)}</p>{legend}"
    html += figures.place(order.tau_figure(section), "Kendall tau-b of the window", text)
    if section.reference is not None:
        html += figures.place(
            order.chart_figure(section),
            "Concordance chart (CUSUM)",
            "Height of the concordance chart over the same outcomes, with its limits.",
            "Climbs while forecasts order worse than the allowance; limits are calibrated on the "
            "reference by resampling.",
        )
    rows = tuple(
        (
            f"{e.outcome:,}",
            f"{e.previous} → {e.state}" if e.kind == "state" else e.kind,
            "; ".join(e.reasons),
        )
        for e in section.events
    )
    if rows:
        html += markup.table(Table("Events", ("outcome", "what", "why"), rows), text_cells=True)
    return markup.section(f"Drift: {key.served_model}{ranker}", html)


def efficiency_section(figures: Figures, data: ReportData) -> str:
    if not data.efficiency:
        return ""
    text = worth.describe(data.efficiency)
    rows = tuple(
        (r.label, *("–" if v != v else f"{v:.2f}" for v in (r.e2el, r.per_token, r.tau)))
        for r in data.efficiency
    )
    columns = ("cohort", "of mean E2EL", "of mean per-token latency", "Kendall tau-b")
    legend = markup.legend(
        ("dot", "accent", "mean E2EL"), ("diamond", "realised", "per-token latency")
    )
    return markup.section(
        "What the order is worth",
        "<p>Each cohort replayed through the same scheduler under FCFS, under the forecasts and "
        "under the true lengths. 1 is an oracle, 0 is FCFS, below 0 is worse than not "
        f"predicting.</p>{legend}"
        + figures.place(worth.figure(data.efficiency), "SJF efficiency", text)
        + markup.table(Table("", columns, rows)),
    )


def notes_section(data: ReportData) -> str:
    if not data.notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in data.notes)
    return markup.section("How to read this", f"<ul>{items}</ul>")
