"""``evaluate --traffic all``: how well novelty tells other traffic, beside what order is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from serving.cli import console

if TYPE_CHECKING:
    from training.novelty.shift import Told

_OWN = "first-turns"


def show(near: Mapping[str, Told], far: Mapping[str, Told]) -> None:
    """A table of traffics by how well novelty tells them from the test rows of first turns:
    ``near``, slices of the same chat with first turns among them, and ``far``, other sources.

    Nothing is printed for a ranker without novelty.
    """
    from training.novelty.shift import shift

    if not any(f.novelty > 0.0 for _, forecasts in near.values() for f in forecasts):
        return
    pairs = zip(*near[_OWN], strict=True)
    test = [(e, f) for e, f in pairs if e.split == "test"]  # validation made the percentiles
    usual = ([e for e, _ in test], [f for _, f in test])
    slices = {name: each for name, each in near.items() if name != _OWN}
    rows = [row for part in (slices, far) if part for row in shift(usual, part).others]
    console.print_table(
        ("traffic", "prompts", "novelty_auroc", "novel", "tau_b"),
        [(r.traffic, r.prompts, r.auroc, r.novel, r.tau) for r in rows],
    )
    if far:
        found = shift(usual, far, _OWN)
        console.note(
            f"Novelty of other sources against test rows of {_OWN} "
            f"(of these {found.usual.novel:.1%} are novel, tau-b {found.usual.tau:.2f}): AUROC "
            f"{found.equal:.3f} by source, {found.pooled:.3f} by prompt; rank correlation of "
            f"novelty and tau-b over sources {found.agreement:.2f}."
        )
