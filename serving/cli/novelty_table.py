"""``evaluate --traffic all``: how well novelty tells other traffic, beside what order is left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from serving.cli import console

if TYPE_CHECKING:
    from training.novelty.shift import Told

_OWN = "first-turns"


def show(told: Mapping[str, Told], slices: Collection[str]) -> None:
    """A table of the traffics in ``told`` by how well novelty tells them from test rows of first
    turns. ``slices`` are those of the same chat: they stand in the table and out of the pools.

    Nothing is printed for a ranker without novelty.
    """
    from training.novelty.shift import shift

    if not any(f.novelty > 0.0 for _, forecasts in told.values() for f in forecasts):
        return
    pairs = zip(*told[_OWN], strict=True)
    test = [(e, f) for e, f in pairs if e.split == "test"]  # validation made the percentiles
    usual = ([e for e, _ in test], [f for _, f in test])
    near = {name: each for name, each in told.items() if name in slices and name != _OWN}
    far = {name: each for name, each in told.items() if name not in slices}
    rows = [row for part in (near, far) if part for row in shift(usual, part).others]
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
