"""One self-contained HTML page: what the policies did, and whether the forecasts still hold."""

from drift.report.data import DriftSection, EfficiencyRow, Fact, PolicyRun, ReportData, Table
from drift.report.page import render, write

__all__ = [
    "DriftSection",
    "EfficiencyRow",
    "Fact",
    "PolicyRun",
    "ReportData",
    "Table",
    "render",
    "write",
]
