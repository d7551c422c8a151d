"""Texts into numbers of tokens: the model whose time is scheduled decides what a token is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class TokenCounter:
    """Counts with a ``tokenizer.json``, or that of a folder. Special tokens do not count.

    Raises ``ValueError`` when there is none.
    """

    def __init__(self, tokenizer: Path) -> None:
        from tokenizers import Tokenizer

        self.file = tokenizer_file(tokenizer)
        self._tokenizer = Tokenizer.from_file(str(self.file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, in order. A lone surrogate counts as a question mark, having no
        bytes that a tokenizer could read."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        found = self._tokenizer.encode_batch_fast(clean, add_special_tokens=False)
        return [len(encoding.ids) for encoding in found]


def tokenizer_file(tokenizer: Path) -> Path:
    """The file itself. Raises ``ValueError`` when it is missing."""
    path = Path(tokenizer)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"{path}: no tokenizer there; prepare the model first")
    return path
