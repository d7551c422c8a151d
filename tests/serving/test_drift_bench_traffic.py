"""Where the drift benchmark's traffic comes from, on invented prompts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranker.types import LEVELS, Forecast
from serving.drift_bench import traffic as module
from serving.drift_bench.catalogue import FOREIGN, SLICES, UPDATES
from serving.drift_bench.traffic import CHAT, Loader, rows_of
from training import smollm2
from training.sharegpt import ShareGpt, Turn

SECRET = "tangerine"


class ByLength:
    """A ranker that goes by the length of the prompt."""

    name, version, served_model = "by-length", "1", CHAT

    def __init__(self) -> None:
        self.asked = 0

    def forecast(self, prompts, served_model=""):
        self.asked += len(prompts)
        return [
            Forecast(
                float(len(p)), tuple(float(i + 1) for i in range(len(LEVELS))), "by-length", "1"
            )
            for p in prompts
        ]


def _turn(name: str, split: str, number: int, depth: int = 0) -> Turn:
    kinds = ("plain words", "```def f(x): return x```", "été où ça né à côté œuvré")
    prompt = f"{SECRET} {number} {kinds[number % 3]} " + "word " * (number % 40 + 20)
    return Turn(name, depth, depth, split, prompt, 30, 20 + 3 * (number % 40))


@pytest.fixture
def corpus(monkeypatch):
    rows = {row["conversation_id"]: row["split"] for row in smollm2.rows()}
    first = tuple(_turn(n, s, i) for i, (n, s) in enumerate(sorted(rows.items())))
    later = tuple(_turn(f"later{i}_9", "test", i, depth=44) for i in range(60))
    found = ShareGpt(first, later, "here")
    monkeypatch.setattr(module, "corpus", lambda *_: found)
    return found


@pytest.fixture
def shared(tmp_path) -> Path:
    """Files as the shared data has them, with a few rows of every source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "données partagées"
    folder.mkdir()
    splits = ("train", "train", "train", "val", "test")
    for file in {f.file for f in FOREIGN}:
        rows = [
            (f.source, "any", i, 20 + 5 * i, splits[i % 5])
            for f in FOREIGN
            if f.file == file
            for i in range(15)
        ]
        rows += [
            (u.source + "opinionqa", model, i, 20 + 3 * (i % 30), splits[i % 5])
            for u in UPDATES
            if u.file == file
            for model in (u.before, u.after)
            for i in range(150)
        ]
        table = pa.table(
            {
                "id": [str(i) for i in range(len(rows))],
                "source": [row[0] for row in rows],
                "model": [row[1] for row in rows],
                "prompt": [f"{SECRET} {'word ' * (row[2] % 30)} {row[2]}" for row in rows],
                "prompt_tokens": [row[2] % 30 + 2 for row in rows],
                "response_tokens": [row[3] for row in rows],
                "split": [row[4] for row in rows],
            }
        )
        pq.write_table(table, folder / file)
    return folder


def test_bundled_traffic_stands_in_for_other_traffic(corpus, tmp_path):
    ranker = ByLength()
    found = Loader(tmp_path, None, ranker).load()
    assert not found.foreign
    assert [shift.name for shift in found.shifts] == ["smollm2", *SLICES]
    assert len(found.chat.test) == sum(t.split == "test" for t in corpus.first)
    assert found.chat.test.tau == pytest.approx(1.0, abs=0.2)
    assert all(len(shift.pool) for shift in found.shifts)


def test_scores_are_kept_and_no_prompt_is(corpus, tmp_path):
    once = ByLength()
    before = Loader(tmp_path, None, once).load()
    again = ByLength()
    after = Loader(tmp_path, None, again).load()
    assert once.asked > 0
    assert again.asked == 0
    np.testing.assert_array_equal(before.chat.test.scores, after.chat.test.scores)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files
    for path in files:
        with np.load(path) as held:
            assert all(held[name].dtype.kind in "fib" for name in held.files)
        assert SECRET.encode() not in path.read_bytes()


@pytest.mark.slow
def test_shared_data_brings_other_traffic_and_later_models(corpus, shared, tmp_path):
    found = Loader(tmp_path / "cache", shared, ByLength()).load()
    names = [shift.name for shift in found.shifts]
    assert names[: len(FOREIGN) + len(UPDATES)] == [
        *(f.name for f in FOREIGN),
        *(u.name for u in UPDATES),
    ]
    for update in UPDATES:
        usual, shift = found.usual[update.name], found.shifts[names.index(update.name)]
        assert shift.usual == update.name
        # The ranker of the model before has learnt that longer prompts get longer answers.
        assert usual.test.tau > 0.5
        assert len(shift.pool) == len(usual.test) == 30


def test_what_is_missing_is_named(corpus, shared, tmp_path):
    with pytest.raises(ValueError, match="--shared-data"):
        Loader(tmp_path / "cache", tmp_path, ByLength()).load()
    with pytest.raises(ValueError, match="no rows of source weather"):
        rows_of(shared / FOREIGN[0].file, "weather")
