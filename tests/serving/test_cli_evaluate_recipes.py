"""The table of published recipes, on invented prompts."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ranker.types import FinishReason
from serving.cli import app, recipes
from serving.cli.recipes import COLUMNS, Choice, compare
from training.recipes.benchmark import Benchmark, Trial
from training.recipes.store import Store
from training.sources import Example


def rows(number: int, split: str, seed: int) -> tuple[Example, ...]:
    """The longer the prompt, the longer the answer; "briefly" makes it short."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(number):
        words, brief = int(rng.integers(2, 40)), bool(rng.integers(2))
        prompt = ("briefly " if brief else "write ") + " ".join(["word"] * words) + f" {split} {i}"
        tokens = 5 + words if brief else 250 + 20 * words
        made.append(Example(prompt, tokens, FinishReason.STOP, "toy", f"{split}{i}", split))
    return tuple(made)


@pytest.fixture(scope="module")
def toy() -> Benchmark:
    return Benchmark(
        "toy",
        rows(200, "train", 0),
        rows(60, "validation", 1),
        (Trial.whole("toy", rows(90, "test", 2)),),
    )


@pytest.fixture
def few() -> Choice:
    return Choice(only=("prompt-length", "clairvoyant", "ours-lexical"), ours=("lexical",))


def test_ours_stands_beside_recipes_that_learnt_from_the_same_rows(toy, few, tmp_path, capsys):
    table, stopped = compare([[toy]], few, Store(tmp_path))
    assert not stopped
    assert [entry.recipe for entry in table] == list(few.only)
    length, lexical, ours = (entry.standing for entry in table)
    assert lexical.tau > length.tau
    assert ours.tau > length.tau
    assert lexical.gain == pytest.approx(lexical.tau - length.tau)
    assert ours.gain == pytest.approx(ours.tau - lexical.tau)
    # A second time nothing is trained, and the table is the same.
    capsys.readouterr()
    assert compare([[toy]], few, Store(tmp_path))[0] == table
    assert capsys.readouterr().err == ""


def test_only_what_is_kept_is_shown_when_asked(toy, few, tmp_path) -> None:
    assert compare([[toy]], replace(few, kept=True), Store(tmp_path)) == ([], False)
    compare([[toy]], replace(few, only=("prompt-length",)), Store(tmp_path))
    table, _ = compare([[toy]], replace(few, kept=True), Store(tmp_path))
    assert [entry.recipe for entry in table] == ["prompt-length"]


def test_who_stops_it_keeps_what_is_done(toy, few, tmp_path, monkeypatch) -> None:
    from training.recipes.clairvoyant import Clairvoyant

    def stop(self, benchmark, setup):
        raise KeyboardInterrupt

    monkeypatch.setattr(Clairvoyant, "fit", stop)
    table, stopped = compare([[toy]], few, Store(tmp_path))
    assert stopped
    assert [entry.recipe for entry in table] == ["prompt-length"]
    monkeypatch.undo()
    table, stopped = compare([[toy]], few, Store(tmp_path))
    assert len(table) == 3
    assert not stopped


def test_a_part_of_a_benchmark_is_of_the_same_kind(toy) -> None:
    part = toy.part(50)
    assert len(part.train) == len(part.validation) == 50
    (trial,) = part.trials
    assert len(trial.examples) == len(trial.groups[0]) == 50
    assert set(trial.examples) <= set(toy.trials[0].examples)


def test_json_and_csv_hold_the_same_numbers(toy, few, tmp_path, capsys) -> None:
    two = replace(few, only=("prompt-length", "clairvoyant"))
    table, _ = compare([[toy]], two, Store(tmp_path))
    capsys.readouterr()
    recipes._print(table, as_json=True, as_csv=False)
    objects = json.loads(capsys.readouterr().out)
    recipes._print(table, as_json=False, as_csv=True)
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(objects[0]) == list(COLUMNS) == list(lines[0])
    for found, line in zip(objects, lines, strict=True):
        assert float(line["tau_b"]) == found["tau_b"]
        assert line["recipe"] == found["recipe"]


def test_every_recipe_says_where_it_is_from() -> None:
    done = CliRunner().invoke(app, ["evaluate", "--sources", "--json"])
    assert done.exit_code == 0, done.output
    found = {row["recipe"]: row["source"] for row in json.loads(done.stdout)}
    assert {"clairvoyant", "ssjf-l1", "ltr", "pars", "tie", "ours-lexical"} <= set(found)
    assert "arXiv 2408.15792" in found["ltr"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nope"], "--only: 'nope' is none of prompt-length"),
        (["--on", "mars"], "--on: 'mars' is none of sharegpt"),
        (["--shared-data", "no such folder"], "no folder"),
        (["--ours", "nope.toml"], "nope.toml"),
    ],
)
def test_a_wrong_choice_is_refused_before_any_work(arguments, message) -> None:
    done = CliRunner().invoke(app, ["evaluate", "--recipes", *arguments])
    assert done.exit_code != 0
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)


def test_traffic_without_its_file_is_left_out_with_a_note(capsys) -> None:
    assert recipes._file(Choice(), "alpacaeval", "prompts_nc.parquet", ("alpacaeval",)) is None
    assert "left out" in capsys.readouterr().err
    assert recipes._file(Choice(data=Path()), "x", "prompts_nc.parquet", ("other",)) is None
    assert capsys.readouterr().err == ""
