"""The lexical tier on many rows stays within so many bytes a row, and the whole way is measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="peak memory of a process is read where POSIX has it")

STAGES = (
    *("Reading", "Reading words", "Fitting words", "Growing trees"),
    *("Calibrating", "Evaluating", "Registering", "Judging"),
)


def printed(rows: int, file: Path, *options: str) -> list[str]:
    """Lines of ``lexical_memory.py``."""
    script = Path(__file__).with_name("lexical_memory.py")
    command = [sys.executable, str(script), str(rows), str(file), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
def test_memory_grows_by_a_few_kilobytes_a_row(tmp_path):
    # 6 GB for a million rows is 6 kB a row; what the libraries take is not counted.
    assert int(printed(20_000, tmp_path / "rows.parquet")[-1]) / 20_000 < 6_000


@pytest.mark.slow
def test_all_of_a_training_is_measured_stage_by_stage(tmp_path):
    pytest.importorskip("mlflow")
    *lines, result, above = printed(2_000, tmp_path / "rows.parquet", "--whole")
    rows = [re.fullmatch(r" *(\S+) s +(\S+) s of CPU +(\S+) GB (.+)", line) for line in lines]
    assert tuple(row[4] for row in rows) == STAGES
    peaks = [float(row[3]) for row in rows]
    assert peaks == sorted(peaks)
    assert 0 < int(above) < 6e9
    assert "version 1: tau-b" in result
    assert re.search(r"version 2: [1-9]\d* checks on \d+", result)
