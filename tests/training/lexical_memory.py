"""Peak memory of the lexical fit on an invented table: ``lexical_memory.py ROWS FILE``.

Prompts have a hundred words in the median, drawn with the frequencies of Zipf's law from words
that nobody uses. Prints the seconds of each stage, and last the bytes at the peak above those
after the imports. ``FILE`` is made, and read as any table is.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lightgbm  # noqa: F401  imported now, so that its size is not counted
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from training.lexical import fit_lexical
from training.lexical_config import LexicalConfig, TreeConfig
from training.sources import read_table

_CHUNK = 10_000
_WORDS = 200_000


def batches(rows: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(seed)
    names = np.array([f"w{i:x}" for i in range(_WORDS)], dtype=object)
    for start in range(0, rows, _CHUNK):
        size = min(_CHUNK, rows - start)
        lengths = np.minimum(400, np.ceil(rng.lognormal(np.log(60), 1.0, size))).astype(int)
        drawn = (rng.zipf(1.15, lengths.sum()) - 1) % _WORDS
        ends = np.cumsum(lengths)
        prompts = [
            f"{start + i} " + " ".join(names[drawn[end - n : end]])
            for i, (end, n) in enumerate(zip(ends, lengths, strict=True))
        ]
        first = drawn[ends - lengths]
        tokens = np.ceil(rng.lognormal(4.0 + (first % 7) / 3.0, 0.5)).astype(int)
        yield pa.RecordBatch.from_pydict({"prompt": prompts, "output_tokens": tokens})


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def main(rows: int, path: Path) -> None:
    with pq.ParquetWriter(
        path, pa.schema({"prompt": pa.string(), "output_tokens": pa.int64()})
    ) as writer:
        for batch in batches(rows):
            writer.write_batch(batch)
    before = peak()
    start = time.perf_counter()

    def say(stage: str, done: float, total: float) -> None:
        print(f"{time.perf_counter() - start:7.1f} s {peak() / 1e9:6.2f} GB {stage} {done}/{total}")

    say("Reading", 0, 1)
    data = read_table(path)
    fit_lexical(data.examples, LexicalConfig(trees=TreeConfig(rounds=100)), progress=say)
    print(peak() - before)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
