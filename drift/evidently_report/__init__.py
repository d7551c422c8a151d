"""Evidently's view of outcomes: the one package that imports evidently.

``data_drift`` compares two cohorts as one page. ``workspace`` keeps a report of every window where
``evidently ui`` finds it. Evidently looks at marginal distributions (scores, lengths), which is
another question than order: traffic can shift while the ranking holds, and the ranking can fail
while no distribution moves. So ``metric`` gives it Kendall's tau, with tests.

Importing this sets ``DO_NOT_TRACK``, before evidently is imported: it sends nothing anywhere.
"""

import os

from drift.evidently_report.shift import ColumnDrift, DataDrift, data_drift

__all__ = ["ColumnDrift", "DataDrift", "data_drift"]

os.environ["DO_NOT_TRACK"] = "1"
