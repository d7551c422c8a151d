"""GGUF files as folders of safetensors that transformers loads, converted once per file and dtype.

Transformers keeps the weights of such a file quantised and then cannot save them, so they are
dequantised here and stored beside their tokenizer.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_MAGIC = b"GGUF"
_TEMPORARY = ".converting-"
_ABANDONED_S = 3600.0
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
#: Tokens that end an answer or a turn; transformers reads only the first.
_ENDS = (
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
)

Progress = Callable[[str], None]


def is_gguf(path: Path) -> bool:
    return path.suffix.lower() == ".gguf"


def convert(
    gguf: Path,
    cache_dir: Path,
    *,
    name: str = "",
    dtype: str = "float32",
    progress: Progress | None = None,
) -> Path:
    """Folder of ``gguf`` as :func:`engine.models.load` takes it, made at first use in
    ``cache_dir`` under ``name`` (default: the file's), its content's hash and ``dtype``.

    A folder under its final name is always complete: it is written under another and renamed.
    Two processes may do so at once. ``progress`` gets a line per stage.

    Raises ``ValueError`` when there is no such file or transformers cannot read it, ``OSError``
    when the folder cannot be written.
    """
    say = progress or (lambda line: None)
    _check_magic(gguf)
    suffix = "" if dtype == "float32" else f"-{dtype}"
    folder = cache_dir / f"{name or gguf.stem}-{_fingerprint(gguf)}{suffix}"
    if folder.is_dir():
        return folder
    cache_dir.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(cache_dir)
    unfinished = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=cache_dir))
    try:
        say(f"Dequantising {gguf.name} to {dtype} (once)")
        _convert(gguf, unfinished, dtype)
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


def _convert(gguf: Path, folder: Path, dtype: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    ends = _read(gguf, folder, dtype)
    try:
        # The bar of the dequantiser cannot be switched off; it goes to stderr.
        with quiet(), contextlib.redirect_stderr(io.StringIO()):
            model = AutoModelForCausalLM.from_pretrained(
                str(gguf.parent),
                gguf_file=gguf.name,
                quantization_config=GgufConfig(dequantize=True),
                dtype=getattr(torch, dtype),
            )
            tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    except Exception as error:  # whatever a foreign parser raises
        raise ValueError(
            f"model: transformers cannot load {gguf.name} ({type(error).__name__}: {error}); give "
            "a folder with the original safetensors instead"
        ) from error
    if ends:
        model.generation_config.eos_token_id = ends if len(ends) > 1 else ends[0]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _read(gguf: Path, folder: Path, dtype: str) -> list[int]:
    """Check that ``gguf`` can be converted into ``folder``; the ids of tokens that end a turn."""
    from gguf import GGUFReader
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES as known

    try:
        reader = GGUFReader(gguf)
    except Exception as error:  # whatever a foreign parser raises
        raise ValueError(
            f"model: {gguf.name} is damaged or cut short ({type(error).__name__}); get it again"
        ) from error
    if int(_field(reader, "split.count") or 1) > 1:
        raise ValueError(
            f"model: {gguf.name} is one of several parts; join them with llama-gguf-split --merge"
        )
    kind = str(_field(reader, "general.architecture") or "")
    # Its own list has both spellings of some ("qwen2moe", "qwen2_moe").
    if kind.replace("-", "_") not in known and kind not in ("qwen2moe", "qwen3moe", "minimax-m2"):
        raise ValueError(
            f"model: {gguf.name} has architecture {kind!r}, which transformers cannot read from "
            f"GGUF; it can {', '.join(sorted(known))}. Give a folder with the original safetensors"
        )
    needed = sum(int(tensor.n_elements) for tensor in reader.tensors) * _BYTES[dtype]
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"model: {gguf.name} takes {needed / 2**30:.1f} GiB as {dtype} and {folder.parent} has "
            f"{free / 2**30:.1f} GiB free; free some, or set SHORTFIRST_HOME to another disk"
        )
    ends = [_field(reader, name) for name in _ENDS]
    return list(dict.fromkeys(int(end) for end in ends if end is not None))


def _field(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()


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


def _check_magic(gguf: Path) -> None:
    try:
        with gguf.open("rb") as stream:
            magic = stream.read(len(_MAGIC))
    except OSError as error:
        raise ValueError(f"model: cannot read {gguf} ({type(error).__name__})") from error
    if magic != _MAGIC:
        raise ValueError(f"model: {gguf} is no GGUF file: it does not begin with {_MAGIC!r}")


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
