"""Which code and which libraries made a ranker."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("shortfirst", "numpy", "scikit-learn", "lightgbm", "torch", "transformers", "mlflow")


def provenance(source: Path | None = None) -> dict[str, str]:
    """Tags for a run: versions of the packages that decide the result, and the commit.

    ``source`` is a file of this package. Without git, or where it does not know that file (a
    package installed inside somebody's repository), the commit is left out.
    """
    found = {f"version.{name}": v for name in _PACKAGES if (v := _version(name))}
    file = source or Path(__file__)
    commit = _git(file, "rev-parse", "HEAD") if _git(file, "ls-files", file.name) else ""
    if commit:
        found["mlflow.source.git.commit"] = commit
        found["git.changed"] = "yes" if _git(file, "status", "--porcelain", "-uno") else "no"
    return found | {
        "version.python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "mlflow.source.name": "shortfirst train",
        "mlflow.source.type": "LOCAL",
    }


def code(root: Path = Path(__file__).parents[1]) -> str:
    """A digest of the sources under ``root`` that a ranker is made by, ``ranker`` and ``training``:
    another when a line of them changes, whether or not that moves a score."""
    sha = hashlib.sha256()
    for path in sorted(p for part in ("ranker", "training") for p in (root / part).rglob("*.py")):
        sha.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return sha.hexdigest()[:16]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(file: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=file.parent, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
