"""The data that comes with the packages, with tokens counted as the bundled model counts them."""

from __future__ import annotations

from pathlib import Path

from training.sharegpt import ShareGpt, load
from training.sources import Progress, silent


def corpus(
    cache: Path,
    tokenizer: Path | None = None,
    progress: Progress = silent,
    *,
    later: bool = True,
) -> ShareGpt:
    """ShareGPT turns; ``tokenizer`` replaces that of the bundled model, which is converted at
    first use (seconds, and then it needs torch). Counts and models are kept under ``cache``;
    ``later`` as in :func:`training.sharegpt.load`."""
    if tokenizer is None:
        from engine.bundled import prepare_bundled

        progress("Preparing the model", 0, 1)
        tokenizer = prepare_bundled(cache)
        progress("Preparing the model", 1, 1)
    return load(cache, tokenizer, progress, later=later)
