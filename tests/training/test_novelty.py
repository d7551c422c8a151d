from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau, mannwhitneyu, spearmanr

from ranker.novelty import NoveltyConfig
from ranker.prediction import Prediction
from ranker.types import LEVELS, FinishReason, Forecast
from training.config import TrainConfig
from training.novelty import sample
from training.novelty.fit import novelty_of
from training.novelty.references import reference_prompts
from training.novelty.shift import elsewhere, shift
from training.sources import Example
from training.split import plain

NOTHING = Prediction(np.empty(0))


def told(rows: int, seed: int, novelty: float, models: int = 2):
    """Each of ``rows`` prompts answered by ``models`` models; scores tell half of the lengths."""
    rng = np.random.default_rng(seed)
    examples, forecasts = [], []
    for i in range(rows):
        new = float(np.clip(rng.normal(novelty, 0.2), 0, 1))
        score = rng.normal()
        for model in range(models):
            tokens = int(100 * np.exp(score + rng.normal()) + 1)
            prompt, name = f"prompt {seed} {i}", f"m{model}"
            examples.append(Example(prompt, tokens, FinishReason.STOP, name, f"{i}", "test"))
            forecasts.append(Forecast(score, tuple([9.0] * len(LEVELS)), "r", "1", novelty=new))
    return examples, forecasts


def test_other_traffic_is_judged_by_distinct_prompts_and_model_by_model():
    usual = told(80, 0, 0.5, models=1)
    others = {str(i): told(40, i, 0.4 + 0.1 * i) for i in range(1, 6)}
    found = shift(usual, others)
    known = [f.novelty for f in usual[1]]
    for row in found.others:
        examples, forecasts = others[row.traffic]
        new = [f.novelty for f in forecasts[::2]]
        assert row.prompts == 40
        assert row.auroc == pytest.approx(mannwhitneyu(new, known).statistic / (40 * 80))
        assert row.novel == np.mean(np.array(new) >= 0.95)
        taus = [
            kendalltau(
                [f.score for f in forecasts[k::2]], [e.output_tokens for e in examples[k::2]]
            )
            for k in (0, 1)
        ]
        assert row.tau == pytest.approx(np.mean([tau.statistic for tau in taus]))
    every = [f.novelty for _, forecasts in others.values() for f in forecasts[::2]]
    assert found.pooled == pytest.approx(mannwhitneyu(every, known).statistic / (200 * 80))
    assert found.equal == pytest.approx(np.mean([row.auroc for row in found.others]))
    pairs = [(row.auroc, row.tau) for row in found.others]
    assert found.agreement == pytest.approx(spearmanr(*zip(*pairs, strict=True)).statistic)
    assert found.usual.auroc == 0.5


def test_too_few_rows_give_no_tau_and_too_few_sources_no_correlation():
    found = shift(told(30, 0, 0.5), {"a": told(10, 1, 0.9), "b": told(30, 2, 0.9)})
    assert np.isnan(found.others[0].tau)
    assert not np.isnan(found.others[1].tau)
    assert np.isnan(found.agreement)
    with pytest.raises(ValueError, match="none was given"):
        shift(told(30, 0, 0.5), {})
    with pytest.raises(ValueError, match="at least one"):
        shift(told(30, 0, 0.5), {"a": ([], [])})


def test_training_traffic_is_told_from_the_prompts_that_are_shipped(examples):
    own = [e for e in examples if e.split == "train"]
    held = [e for e in examples if e.split == "validation"]
    novelty = novelty_of(own, held, TrainConfig())
    assert novelty.contrast.weight == 1.0
    usual = novelty.of([e.prompt for e in examples if e.split == "test"], NOTHING)
    assert np.mean(usual) == pytest.approx(0.5, abs=0.1)
    assert np.mean(novelty.of(reference_prompts(), NOTHING) >= 0.95) > 0.9
    few = [replace(e, prompt=own[0].prompt) for e in own]
    assert novelty_of(few, held, TrainConfig()) is None


def test_settings_of_novelty_are_read_from_tables_and_recorded_flat():
    config = TrainConfig.from_dict({"novelty": {"penalty": 2.0, "outlines": {"bits": 12}}})
    assert (config.novelty.penalty, config.novelty.outlines.bits) == (2.0, 12)
    assert config.params()["novelty.outlines.bits"] == 12
    assert config.params()["novelty.clear"] == NoveltyConfig().clear
    with pytest.raises(ValueError, match=r"prototypes is unknown"):
        TrainConfig.from_dict({"novelty": {"prototypes": 9}})


def test_the_shipped_prompts_are_distinct_and_begin_as_they_were_asked_to():
    prompts = reference_prompts()
    assert len(prompts) >= 1000
    assert len({plain(prompt) for prompt in prompts}) == len(prompts)
    openings = tuple(opening for each in sample.OPENINGS.values() for opening in each)
    assert all(prompt.startswith(openings) for prompt in prompts)
    assert not any(mark in prompt for prompt in prompts for mark in (sample.END, "<|im_start|>"))


class _Engine(BaseHTTPRequestHandler):
    """Goes on after the opening with what the seed says; every fifth text does not end."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert asked["prompt"].startswith("<|im_start|>system\n")
        seed = asked["seed"]
        choice = {
            "text": f" rivers and lakes, number {seed % 7} ",
            "finish_reason": "length" if seed % 5 == 0 else "stop",
        }
        body = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # all that are in flight may connect at once


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(sample, "EACH", 2)
    server = _Server(("127.0.0.1", 0), _Engine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_prompts_are_drawn_after_each_opening_and_kept_once(engine, tmp_path):
    out = tmp_path / "prompts é.parquet"
    rows = sample.distinct(asyncio.run(sample.draw(engine)))
    asked = 2 * sum(map(len, sample.OPENINGS.values()))
    assert 0 < len(rows) <= asked - asked // 5
    assert len({row["prompt"] for row in rows}) == len(rows)
    for row in rows:
        assert row["seed"] % 5
        assert row["prompt"].startswith(sample.OPENINGS[row["kind"]])
    sample.main(f"{engine}/", out)
    assert pq.read_table(out).to_pylist() == rows
    assert sample.distinct(rows) == rows


@pytest.mark.parametrize("text", ["Write it", "Write of a murder in town"])
def test_texts_that_are_too_short_or_unfit_are_left_out(text):
    assert sample.distinct([{"kind": "any", "seed": 1, "prompt": text}]) == []


class _Longer:
    """A longer prompt, a longer answer; and a newer one."""

    def forecast(self, prompts, served_model=""):
        assert not served_model
        rows = tuple([9.0] * len(LEVELS))
        return [Forecast(len(p), rows, "r", "1", novelty=len(p) / 100) for p in prompts]


def test_each_source_of_a_file_is_forecast_once_a_prompt(tmp_path):
    rows = [
        {"id": f"{i}", "source": s, "model": m, "prompt": "x" * (i + 1), "prompt_tokens": 1,
         "response_tokens": 10 + i}
        for s in ("b", "a") for m in ("m0", "m1") for i in range(30)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "others é.parquet")
    found = elsewhere(tmp_path / "others é.parquet", _Longer())
    assert list(found) == ["a", "b"]
    for examples, forecasts in found.values():
        assert len(examples) == 60
        assert [f.score for f in forecasts] == [len(e.prompt) for e in examples]
    judged = shift(told(40, 0, 0.9), found)
    assert [(row.prompts, row.tau) for row in judged.others] == [(30, 1.0), (30, 1.0)]
