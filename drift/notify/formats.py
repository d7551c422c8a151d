"""One notice as each kind of receiver wants it. Pure; times are Unix seconds, told as RFC 3339.

Prompts never come here: an entry has names, states and numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from drift.notify.notice import Notice, Status

#: Text of a Slack block is cut here; Slack takes 3,000 characters, and 150 in a header.
_SLACK_TEXT, _SLACK_HEADER = 2900, 150
_EMOJI = {"warn": ":warning:", "degraded": ":rotating_light:", "fcfs": ":rotating_light:"}
_COLOURS = {Status.FIRING: "#c62828", Status.RESOLVED: "#2e7d32", Status.INFO: "#455a64"}


class Format(Protocol):
    """Turns notices into the JSON of one POST, or ``None`` when there is nothing to say."""

    def __call__(self, notice: Notice, now: float, link: str, resend_s: float) -> Any: ...


def generic(notice: Notice, now: float, link: str, resend_s: float) -> dict[str, Any]:
    """Everything, flat: for one's own receivers. ``format`` counts changes that break readers."""
    entry = notice.entry
    return {
        "format": 1,
        "id": entry.digest,
        "status": str(notice.status),
        "severity": notice.severity,
        "state": notice.state,
        "title": notice.title,
        "slice": entry.label,
        "started_at": rfc3339(notice.started),
        "sent_at": rfc3339(now),
        "link": link,
        **entry.as_dict(),
        "at": rfc3339(entry.at),
    }


def slack(notice: Notice, now: float, link: str, resend_s: float) -> dict[str, Any]:
    """Incoming webhook of Slack, and of what imitates it: ``text`` for notifications, and blocks
    in an attachment, which gives the coloured bar."""
    entry = notice.entry
    emoji = ":white_check_mark:" if notice.status is Status.RESOLVED else _EMOJI.get(notice.state)
    title = " ".join(filter(None, (emoji, notice.title)))
    facts = [(name, value) for name, value in _facts(notice).items() if value]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:_SLACK_HEADER]}},
    ]
    if entry.reasons:
        blocks.append(
            _section("*Evidence*\n" + "\n".join(f"• {r}" for r in map(_plain, entry.reasons)))
        )
    if entry.advice:
        blocks.append(_section(f"*What to do*\n{_plain(entry.advice)}"))
    if facts:
        fields = [{"type": "mrkdwn", "text": f"*{k}*\n{_plain(v)}"[:1900]} for k, v in facts[:10]]
        blocks.append({"type": "section", "fields": fields})
    if link:
        blocks.append(_section(f"<{link}|Open the drift dashboard>"))
    return {
        "text": _plain(title),
        "attachments": [
            {"color": _COLOURS[notice.status], "fallback": _plain(title), "blocks": blocks}
        ],
    }


def alertmanager(
    notice: Notice, now: float, link: str, resend_s: float
) -> Sequence[dict[str, Any]] | None:
    """``POST /api/v2/alerts`` of Alertmanager: an array of postable alerts.

    Labels identify an alert, so a change of severity ends one and begins another. ``endsAt`` of a
    firing one lies four resends ahead, as Prometheus does: it ends by itself when nobody is left to
    send it.
    """
    if notice.status is Status.INFO:
        return None
    # The start is when outcomes arrived, by their reporter's clock; no alert starts in the future.
    started = min(notice.started, now)
    ends = now + 4.0 * resend_s if notice.status is Status.FIRING else now
    alerts = [_alert(notice, notice.severity, started, ends, link)]
    if notice.replaces:
        alerts.append(_alert(notice, notice.replaces, started, now, link))
    return alerts


def _alert(notice: Notice, severity: str, started: float, ends: float, link: str) -> dict[str, Any]:
    entry = notice.entry
    labels = {
        "alertname": "ShortfirstDrift",
        "service": "shortfirst",
        "severity": severity,
        "served_model": entry.served_model,
        "slice": entry.label,
        "lane": entry.lane,
        "tenant": entry.tenant,
    }
    annotations = {
        "summary": notice.title,
        "description": entry.message,
        "evidence": "; ".join(entry.reasons),
        "action": entry.advice,
        **{name.lower().replace(" ", "_"): value for name, value in _facts(notice).items()},
    }
    alert = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": rfc3339(started),
        "endsAt": rfc3339(ends),
    }
    return {**alert, "generatorURL": link} if link else alert


def _facts(notice: Notice) -> dict[str, str]:
    entry = notice.entry
    return {
        "State": notice.state,
        "Cause": entry.cause,
        "Ranker": f"{entry.ranker} {entry.version}".strip(),
        "Traffic": entry.label,
        "Tau": _interval(entry.details),
        "Reference tau": _number(entry.details.get("reference_tau")),
        "Gate": entry.gate,
        "Actor": entry.actor,
        "Since": rfc3339(notice.started) if notice.status is not Status.INFO else "",
    }


def _interval(details: Mapping[str, Any]) -> str:
    value, low, high = (_number(details.get(k)) for k in ("tau", "tau_low", "tau_high"))
    return f"{value} ({low} to {high})" if value and low and high else value


def _number(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else ""


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_SLACK_TEXT]}}


def _plain(text: str) -> str:
    """The three characters that Slack gives a meaning of its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


FORMATS: Mapping[str, Callable[[Notice, float, str, float], Any]] = {
    "json": generic,
    "slack": slack,
    "alertmanager": alertmanager,
}
