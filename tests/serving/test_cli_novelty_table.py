from __future__ import annotations

import numpy as np

from ranker.types import LEVELS, FinishReason, Forecast
from serving.cli import novelty_table
from training.sources import Example


def told(rows: int, novelty: float, split: str = "test"):
    rng = np.random.default_rng(rows)
    examples, forecasts = [], []
    for i in range(rows):
        tokens = int(rng.integers(5, 500))
        examples.append(Example(f"{rows} {i}", tokens, FinishReason.STOP, "m", f"{i}", split))
        spread = novelty + (0.0 if not novelty else 0.001 * i)
        forecasts.append(
            Forecast(float(tokens), tuple([9.0] * len(LEVELS)), "r", "1", novelty=spread)
        )
    return examples, forecasts


def both(one, other):
    return tuple(a + b for a, b in zip(one, other, strict=True))


def test_slices_and_sources_are_told_from_the_test_rows_of_first_turns(capsys):
    own = both(told(40, 0.3), told(41, 0.9, "validation"))  # these made the percentiles
    near = {"first-turns": own, "later-turns": told(30, 0.3)}
    far = {f"source {i}": told(31 + i, 0.96) for i in range(4)}
    novelty_table.show(near, far)
    printed = capsys.readouterr()
    lines = {line.split("│")[1].strip(): line for line in printed.out.splitlines() if "│" in line}
    assert list(lines) == ["later-turns", *far]
    assert [cell.strip() for cell in lines["source 0"].split("│")[2:6]] == ["31", "1", "1", "1"]
    assert "AUROC 1.000 by source, 1.000 by prompt" in printed.err
    novelty_table.show(near, {})
    printed = capsys.readouterr()
    assert "source" not in printed.out
    assert printed.err == ""


def test_a_ranker_without_novelty_gets_no_table(capsys):
    novelty_table.show({"first-turns": told(30, 0.0), "code": told(31, 0.0)}, {})
    assert capsys.readouterr().out == ""
