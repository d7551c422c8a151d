"""Every method by name, as the benchmark compares them."""

from __future__ import annotations

from drift.detectors.baselines import Dummy, NoDrift
from drift.detectors.concordance_cusum import ConcordanceCusum
from drift.detectors.e_process import EProcess
from drift.detectors.page_hinkley import PageHinkley
from drift.detectors.pit_cusum import PitCusum
from drift.detectors.protocol import Method
from drift.detectors.psi import Psi
from drift.detectors.rolling_error import RollingError
from drift.detectors.tau_window import TauWindow

CONCORDANCE, TAU_WINDOW, PIT = "concordance-cusum", "tau-window", "pit-cusum"


def methods() -> dict[str, Method]:
    """Rank detectors first, then scale, covariate, and what all have to beat."""
    return {
        CONCORDANCE: ConcordanceCusum(),
        TAU_WINDOW: TauWindow(),
        "e-process": EProcess(),
        "page-hinkley": PageHinkley(),
        PIT: PitCusum(),
        "rolling-error": RollingError(),
        "psi": Psi(),
        "dummy": Dummy(),
        "no-drift": NoDrift(),
    }
