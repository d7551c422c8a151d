"""Compiles the C sources beside this file at first use, for the very CPU, into a cache folder."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

#: Tried in this order until the compiler takes one. None lets it reorder sums: results would
#: depend on how a loop was cut.
FLAGS = (
    ("-O3", "-march=native", "-mprefer-vector-width=512"),
    ("-O3", "-march=native"),
    ("-O3", "-mcpu=native"),
    ("-O2",),
)
_ALWAYS = ("-std=gnu11", "-fPIC", "-pthread", "-fno-math-errno", "-fno-trapping-math")
_TIMEOUT_S = 300.0
_PREFIX = "shortfirst-"


class BuildFailed(RuntimeError):
    """There is no compiler, or it takes none of the flags; the message says which."""


def compiler() -> str:
    """Path of the C compiler: ``$CC``, or the system's. Raises ``BuildFailed``."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise BuildFailed("no C compiler found (cc, gcc or clang); install one, or set CC")


def build(cache: Path) -> Path:
    """The shared library in ``cache``, compiled if need be. Raises ``BuildFailed`` or ``OSError``.

    A file's name holds a hash of sources, flags, compiler and CPU, and one of its own content,
    which is checked. Written under another name and renamed: two processes may build at once.
    """
    command = compiler()
    key = _key(command)
    if (found := _find(cache, key)) is not None:
        return found
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=cache) as folder:
        made = _compile(command, Path(folder))
        target = cache / f"{_PREFIX}{key}-{_hash(made.read_bytes())}.so"
        os.replace(made, target)
    return target


def _sources() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.[ch]"))


def _find(cache: Path, key: str) -> Path | None:
    """A library with that key whose content is what its name says; others of that key go."""
    for file in sorted(cache.glob(f"{_PREFIX}{key}-*.so")):
        try:
            content = file.read_bytes()
        except FileNotFoundError:  # another process threw it away meanwhile
            continue
        if file.stem.rpartition("-")[2] == _hash(content):
            return file
        log.warning("%s is damaged and is built again", file.name)
        file.unlink(missing_ok=True)
    return None


def _compile(command: str, folder: Path) -> Path:
    said = ""
    for flags in FLAGS:
        try:
            return _compile_with(command, flags, folder)
        except BuildFailed as error:
            said = str(error)
    raise BuildFailed(said)


def _compile_with(command: str, flags: Sequence[str], folder: Path) -> Path:
    """All sources at once, each in a process of its own, then linked."""
    sources = [path for path in _sources() if path.suffix == ".c"]
    objects = [folder / f"{source.stem}.o" for source in sources]
    commands = [
        [command, *_ALWAYS, *flags, "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, objects, strict=True)
    ]
    started = [
        subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for one in commands
    ]
    try:
        for process, source in zip(started, sources, strict=True):
            _, errors = process.communicate(timeout=_TIMEOUT_S)
            if process.returncode:
                raise BuildFailed(f"{Path(command).name} fails on {source.name}: {_first(errors)}")
    except subprocess.TimeoutExpired:
        raise _too_slow(command) from None
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()
    library = folder / "library.so"
    linking = [command, "-shared", "-pthread", *map(str, objects), "-o", str(library), "-lm"]
    linked = _run(linking)
    if linked.returncode:
        raise BuildFailed(f"{Path(command).name} cannot link: {_first(linked.stderr)}")
    return library


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise _too_slow(command[0]) from None


def _too_slow(command: str) -> BuildFailed:
    return BuildFailed(f"{Path(command).name} took over {_TIMEOUT_S:g} s")


def _first(errors: bytes) -> str:
    lines = errors.decode(errors="replace").splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message")


def _key(command: str) -> str:
    parts = [_run([command, "--version"]).stdout, repr((FLAGS, _ALWAYS)).encode(), _cpu().encode()]
    for source in _sources():
        parts += [source.name.encode(), source.read_bytes()]
    return _hash(*parts)


def _cpu() -> str:
    """What ``-march=native`` looks at, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    kinds = ("model name", "cpu family", "model\t", "flags", "Features", "CPU part")
    known = dict.fromkeys(line for line in lines if line.startswith(kinds))
    return "\n".join([platform.machine(), platform.processor(), *known])


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:16]
