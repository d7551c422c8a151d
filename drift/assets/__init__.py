"""Alert rules for Prometheus and a dashboard for Grafana, as files."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from drift.files import write_whole

NAMES = ("alerts.yml", "grafana.json")


def text(name: str) -> str:
    """One of ``NAMES``."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def write(folder: Path) -> list[Path]:
    """Write both into ``folder``, made when missing; return their paths. Raises ``OSError``."""
    return [write_whole(folder / name, text(name)) for name in NAMES]
