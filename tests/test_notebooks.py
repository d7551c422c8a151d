"""Notebooks run, and what they show is what they print."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    names: dict[str, object] = {}
    for cell in code:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec("".join(cell["source"]), names)
        shown = "".join(line for out in cell["outputs"] for line in out["text"])
        assert printed.getvalue() == shown
