"""All tests of the CUDA path, and speeds, as one JSON object: ``make gpu``.

``{device, torch, passed, failed, skipped, seconds, tests: [{name, outcome, seconds, ...}]}``;
a test's further keys are what it recorded. Exits with pytest's status, or 3 without a GPU.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch


class Report:
    """Collects outcomes and what tests recorded."""

    def __init__(self) -> None:
        self.tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.rpartition("/")[2]
            found = {"name": name, "outcome": report.outcome, "seconds": round(report.duration, 2)}
            self.tests.append(found | dict(report.user_properties))


def main() -> int:
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no CUDA device; on a machine with one, install the "
              "CUDA build: pip install 'torch==2.13.*'", file=sys.stderr)  # fmt: skip
        return 3
    report, begun = Report(), time.monotonic()
    root = Path(__file__).resolve().parent.parent
    os.chdir(root)
    sys.path.insert(0, str(root))
    here = root / "tests" / "engine" / "torch"
    arguments = ["-m", "gpu", "-q", "--timeout=250", "-p", "no:cacheprovider", str(here)]
    status = int(pytest.main([*arguments, *sys.argv[1:]], plugins=[report]))
    outcomes = [test["outcome"] for test in report.tests]
    major, minor = torch.cuda.get_device_capability()
    summary = {
        "device": torch.cuda.get_device_name(),
        "capability": f"{major}.{minor}",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        **{name: outcomes.count(name) for name in ("passed", "failed", "skipped")},
        "seconds": round(time.monotonic() - begun, 1),
        "tests": report.tests,
    }
    print(json.dumps(summary, indent=1))
    return status


if __name__ == "__main__":
    sys.exit(main())
