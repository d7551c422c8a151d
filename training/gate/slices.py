"""Parts of the traffic that a better average must not be paid by: known when a prompt arrives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.sources import Example

Members = NDArray[np.bool_]


def slices(examples: Sequence[Example]) -> dict[str, Members]:
    """Which rows belong to which slice, by name; each has at least one row. They may overlap."""
    sizes = np.array([len(e.prompt) for e in examples])
    short, long = np.quantile(sizes, [1 / 3, 2 / 3]) if len(sizes) else (0.0, 0.0)
    found = {
        "short prompts": sizes <= short,
        "middling prompts": (sizes > short) & (sizes <= long),
        "long prompts": sizes > long,
        "code": np.array(["```" in e.prompt or "def " in e.prompt for e in examples]),
        "other scripts": np.array([_foreign(e.prompt) for e in examples]),
        "several lines": np.array(["\n" in e.prompt.strip() for e in examples]),
    }
    return {name: members for name, members in found.items() if members.any()}


def _foreign(prompt: str) -> bool:
    """Whether a tenth of the first thousand characters are letters outside the Latin alphabets."""
    head = prompt[:1000]
    return sum(ord(c) > 0x24F and c.isalpha() for c in head) > 0.1 * len(head)
