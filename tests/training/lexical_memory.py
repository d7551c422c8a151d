"""Memory and processor time of the lexical tier on an invented table.

``lexical_memory.py ROWS FILE`` reads and fits; with ``--whole`` it does what ``shortfirst train``
does, from calibration to a version in a registry of its own, and then asks the gate about that
version twice. ``FILE`` is made, and read as any table is. Prompts have a hundred words in the
median, drawn with the frequencies of Zipf's law from words that nobody uses.

Prints, at the end of each stage, seconds by the clock and of the processor, and the peak of memory
so far; last the bytes at the peak above those after the imports.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import lightgbm  # noqa: F401  imported now, so that its size is not counted
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from training.config import TrainConfig
from training.lexical import fit_lexical
from training.lexical_config import LexicalConfig, TreeConfig
from training.sources import Data, read_table

_CHUNK = 10_000
_WORDS = 200_000
_LEXICAL = LexicalConfig(trees=TreeConfig(rounds=100))


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
    """Bytes in memory at the most so far."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage's would be that of the process which started this, if larger
        (kilobytes,) = re.findall(r"^VmHWM:\s*(\d+) kB$", status.read_text(), re.MULTILINE)
        return int(kilobytes) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


class Stages:
    """A ``Progress`` that prints what a stage took once the next one begins. Threads of this
    process count."""

    def __init__(self) -> None:
        self._stage = ""
        self._clock, self._processor = 0.0, 0.0

    def __call__(self, stage: str, done: float, total: float) -> None:
        if stage != self._stage:
            self.end()
            self._stage = stage
            self._clock, self._processor = time.perf_counter(), time.process_time()

    def end(self) -> None:
        if self._stage:
            clock = time.perf_counter() - self._clock
            processor = time.process_time() - self._processor
            print(
                f"{clock:8.1f} s {processor:8.1f} s of CPU {peak() / 1e9:6.2f} GB {self._stage}",
                flush=True,
            )
        self._stage = ""


def whole(data: Data, home: Path, stages: Stages) -> None:
    """Train, register and promote in a registry under ``home``; then judge a second version, equal
    to the first, which the gate lets pass or not."""
    from ranker.registry import Registry
    from training import pipeline
    from training.gate import judge

    registry = Registry(f"sqlite:///{home}/mlflow.db", home / "artifacts")
    name, model = "length-ranker-rows", data.examples[0].model
    result = pipeline.run(
        pipeline.Job(data, model, name),
        TrainConfig(lexical=_LEXICAL),
        registry,
        stages,
        by="lexical_memory.py",
        now=datetime.now(UTC),
    )
    stages("Judging", 0, 1)
    again = registry.register(result.run_id, name, {"served_model": model})
    verdict = judge(registry, name, again, data)
    stages.end()
    own = result.tables["test"][0]
    print(
        f"version {result.version}: tau-b {own.tau:.3f} ({own.low:.3f} to {own.high:.3f}) on "
        f"{own.rows} test rows; version {again}: {len(verdict.checks)} checks on {verdict.rows}"
    )


def main(rows: int, path: Path, everything: bool) -> None:
    if everything:  # imported now, so that their size is not counted
        import training.pipeline  # noqa: F401
        from ranker.registry import Registry  # noqa: F401
    with pq.ParquetWriter(
        path, pa.schema({"prompt": pa.string(), "output_tokens": pa.int64()})
    ) as writer:
        for batch in batches(rows):
            writer.write_batch(batch)
    before = peak()
    stages = Stages()
    stages("Reading", 0, 1)
    data = read_table(path)
    if everything:
        with tempfile.TemporaryDirectory(prefix="lexical-memory-") as home:
            whole(data, Path(home), stages)
    else:
        fit_lexical(data.examples, _LEXICAL, progress=stages)
    stages.end()
    print(peak() - before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--whole", action="store_true", help="as shortfirst train does")
    given = parser.parse_args()
    main(given.rows, given.file, given.whole)
