"""Options of ``shortfirst engine`` that are more than one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from engine.core.budgets import Budget
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig

#: The name that stands for every tenant without a budget of its own.
EVERYBODY = "*"

#: A CPU computes prompts as fast in small pieces, and those hold the streams up for less; a GPU
#: needs large products.
_STEP_TOKENS = {"cpu": 256, "cuda": 2048}


def step_tokens(device: str, max_num_seqs: int) -> int:
    """Tokens of a step where nobody says: what suits ``device``, and one for each that runs."""
    return max(_STEP_TOKENS[device], max_num_seqs)


def cost_model(text: str) -> CostModel | None:
    """``BASE,DECODE,PREFILL[,CONTEXT[,SWAP]]`` in seconds; ``None`` when empty.

    Raises ``ValueError``.
    """
    if not text:
        return None
    try:
        parts = [float(part) for part in text.split(",")]
    except ValueError:
        parts = []
    if not 3 <= len(parts) <= 5:
        raise ValueError(
            f"--cost must be three to five numbers BASE,DECODE,PREFILL,CONTEXT,SWAP, got {text!r}"
        )
    return CostModel(*parts)


def cost_text(cost: CostModel) -> str:
    """What :func:`cost_model` reads back."""
    parts = (cost.base, cost.decode, cost.prefill, cost.context, cost.swap)
    return ",".join(f"{part:.6g}" for part in parts)


def fairness(
    fair: bool, budgets: Sequence[str], known: Mapping[str, Budget] = MappingProxyType({})
) -> FairnessConfig | None:
    """Of ``--fair-tenants`` and ``--tenant-budget NAME=RATE:BURST``; ``None``: tenants are alike.

    ``known``: budgets of a configuration file, over which those of the command line go.

    Raises ``ValueError`` naming the option.
    """
    found: dict[str, Budget] = {}
    for text in budgets:
        name, _, numbers = text.rpartition("=")
        try:
            rate, burst = (float(part) for part in numbers.split(":"))
        except ValueError:
            name = ""
        if not name:
            raise ValueError(
                "--tenant-budget must look like NAME=RATE:BURST, tokens per second and tokens, "
                f"got {text!r}; {EVERYBODY} stands for every other tenant"
            )
        if name in found:
            raise ValueError(f"--tenant-budget gives {name!r} twice")
        try:
            found[name] = Budget(rate, burst)
        except ValueError as error:
            raise ValueError(f"--tenant-budget {name}: {error}") from None
    found = {**known, **found}
    if not fair and not found:
        return None
    default = found.pop(EVERYBODY, None)
    return FairnessConfig(budgets=found, default_budget=default, counters=fair)
