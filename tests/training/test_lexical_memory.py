"""The lexical fit on many rows stays within so many bytes a row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="peak memory of a process is read where POSIX has it")


@pytest.mark.slow
def test_memory_grows_by_a_few_kilobytes_a_row(tmp_path):
    # 6 GB for a million rows is 6 kB a row; what the libraries take is not counted.
    script = Path(__file__).with_name("lexical_memory.py")
    command = [sys.executable, str(script), "20000", str(tmp_path / "rows.parquet")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(out[-1]) / 20_000 < 6_000
