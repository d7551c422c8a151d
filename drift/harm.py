"""How much a series has lost, on one scale for all of them."""

from __future__ import annotations


def lost(
    efficiency: float | None, usual: float | None, tau: float | None, reference: float | None
) -> float:
    """SJF efficiency lost against what is usual for the series, 0 or above.

    Where one of the two isn't known (a restart forgets what was usual, a small slice is not
    replayed) it is the tau-b lost against the reference, which moves about alike; 0 when that isn't
    known either.
    """
    if efficiency is not None and usual is not None:
        return max(0.0, usual - efficiency)
    if tau is not None and reference is not None:
        return max(0.0, reference - tau)
    return 0.0
