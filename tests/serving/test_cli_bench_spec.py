"""``shortfirst bench spec`` on tiny models in folders, and what it says of what it found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.bench.speculation import OFF, Row
from engine.comparison import Spread
from serving.cli import app
from serving.cli.bench import spec


def save_model(folder: Path, layers: int) -> Path:
    """Random weights that know bytes alone, and a template to chat with."""
    import torch
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "</s>"]
    made = Tokenizer(BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=made, eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}:"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokens), hidden_size=32, intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=2048,
        eos_token_id=len(tokens) - 1, bos_token_id=None, initializer_range=0.1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, but for kernels that were compiled before."""
    kept = Path(
        os.environ.get("SHORTFIRST_TEST_CACHE", request.config.rootpath / ".cache" / "models")
    )
    (kept / "native").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "native").symlink_to(kept / "native")
    monkeypatch.setenv("SHORTFIRST_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.mark.parametrize("method", ["ngram", "model"])
def test_it_holds_three_engines_against_each_other(home: Path, method: str) -> None:
    large = save_model(home / "large", 2)
    options = ["--method", method, "--model", str(large), "--dtype", "float32", "--threads", "1"]
    if method == "model":
        options += ["--draft-model", str(save_model(home / "small", 1))]
    limits = ["--levels", "1,3", "--tokens", "12", "--repeats", "1", "--kv-gib", "0.02"]
    result = CliRunner().invoke(app, ["bench", "spec", *options, *limits, "--json"])
    assert result.exit_code == 0, result.exception
    report = json.loads(result.stdout)
    assert [(row["prompts"], row["level"], row["engine"]) for row in report["rows"]] == [
        (kind, level, engine)
        for kind in ("copy", "chat")
        for level in (1, 3)
        for engine in (OFF, "always", "auto")
    ]
    assert all(row["same"] for row in report["rows"])
    assert all(row["drafts"] > 0 for row in report["rows"] if row["engine"] == "always")
    assert (report["speculation"]["draft_seconds"] > 0) == (method == "model")


def test_a_draft_model_of_other_tokens_is_refused(home: Path) -> None:
    large, small = save_model(home / "large", 1), save_model(home / "small", 1)
    config = json.loads((small / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = config["model"]["vocab"]
    vocabulary["A"], vocabulary["B"] = vocabulary["B"], vocabulary["A"]
    (small / "tokenizer.json").write_text(json.dumps(config), encoding="utf-8")
    result = CliRunner().invoke(
        app,
        ["bench", "spec", "--method", "model", "--model", str(large), "--draft-model", str(small)],
    )
    assert "must share one tokenizer" in str(result.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "oracle"], "--method must be one of ngram, model"),
        (["--method", "model"], "needs draft_model"),
        (["--draft-model", "x"], "speculate model alone"),
        (["--max-drafts", "0"], "max_drafts"),
        (["--levels", "0"], "levels"),
        (["--levels", "few"], "--levels"),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_loaded(options: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["bench", "spec", "--model", "nowhere", *options])
    assert result.exit_code != 0
    assert said in str(result.exception)


def rows(always: tuple[float, ...], auto: tuple[float, ...], same: bool = True) -> list[Row]:
    def row(level: int, engine: str, relative: float) -> Row:
        one = Spread(relative, relative, relative)
        return Row("copy", level, engine, one, one, 0.5, 1.0, 2.0, same)

    return [
        row(level, engine, relative)
        for level, *pair in zip((1, 4, 16), always, auto, strict=True)
        for engine, relative in zip((OFF, "always", "auto"), (1.0, *pair), strict=True)
    ]


def test_it_says_where_guessing_stops_to_pay_and_whether_auto_follows() -> None:
    falls = spec._verdicts(rows((2.0, 1.2, 0.7), (1.98, 1.2, 0.99)))
    assert falls[0] == "copy: to guess always pays up to 4 in flight"
    assert falls[1].startswith("met: copy: auto has at least 99% of the better")
    assert falls[2].startswith("met: every answer is the same")
    lost = spec._verdicts(rows((0.9, 0.9, 0.7), (1.0, 0.7, 1.0), same=False))
    assert lost[0].endswith("pays at none of these levels")
    assert lost[1].startswith("MISSED")
    assert lost[1].endswith("least at 4 in flight")
    assert lost[2].startswith("MISSED")
    assert spec._verdicts(rows((2.0, 1.2, 1.1), (2.0, 1.2, 1.1)))[0].endswith("the most tried")
