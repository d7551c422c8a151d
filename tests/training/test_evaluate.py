from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau
from typer.testing import CliRunner

from ranker import artifact
from serving.cli import app, tables
from serving.cli.console import cell
from training.card import card
from training.evaluate import FCFS, LEAST_DRAWN, Flatness, evaluate, flatness
from training.fit import TrainedRanker, train
from training.slices import by_slice
from training.sources import Data


@pytest.fixture(scope="module")
def trained(examples, quick) -> TrainedRanker:
    return train(examples, quick, served_model="toy", name="r")


@pytest.fixture(scope="module")
def held(examples):
    return [e for e in examples if e.split == "test"]


def test_numbers_are_scipys_and_the_baselines_stand_beside(trained, held):
    rows = evaluate({"r": trained.ranker, "prompt-length": trained.baseline}, held)
    assert [row.ranker for row in rows] == ["r", "prompt-length", FCFS]
    forecasts = trained.ranker.forecast([e.prompt for e in held])
    tokens = np.array([e.output_tokens for e in held])
    tau = kendalltau([f.score for f in forecasts], tokens).statistic
    assert rows[0].tau == pytest.approx(tau)
    assert rows[0].low < tau < rows[0].high
    assert rows[0].p90 == pytest.approx(np.mean([f.quantile(0.9) for f in forecasts] >= tokens))
    assert rows[0].tau > rows[1].high
    assert rows[0].loss < rows[1].loss
    assert rows[2].low < 0 < rows[2].high
    assert math.isnan(rows[2].p50)


def test_an_order_without_quantiles_is_judged_as_a_ranker_s(trained, held):
    scores = trained.baseline.scores([e.prompt for e in held])
    whole = evaluate({"prompt-length": trained.baseline}, held)[0]
    plain, fcfs = evaluate({}, held, orders={"prompt-length": scores})
    assert (plain.tau, plain.low, plain.accuracy) == (whole.tau, whole.low, whole.accuracy)
    assert math.isnan(plain.p50)
    assert fcfs.ranker == FCFS


def test_metrics_leave_out_what_does_not_apply(trained, held):
    ranker, fcfs = evaluate({"r": trained.ranker}, held)
    assert set(ranker.metrics("test")) == {
        f"test.{name}"
        for name in (
            "tau",
            "tau_low",
            "tau_high",
            "pair_accuracy",
            "short_long_accuracy",
            "p50_coverage",
            "p90_coverage",
            "quantile_loss",
        )
    }
    assert "test.fcfs.p50_coverage" not in fcfs.metrics("test.fcfs")


def test_draws_of_one_prompt_give_a_ceiling_and_are_resampled_together(trained, held):
    rng = np.random.default_rng(0)
    twice = [
        replace(e, id=f"{e.id}/{d}", output_tokens=int(e.output_tokens * rng.lognormal(0, 1)) + 1)
        for e in held[:60]
        for d in (0, 1)
    ]
    (row, _), (once, _) = (evaluate({"r": trained.ranker}, rows) for rows in (twice, held[:60]))
    assert math.isnan(once.ceiling)
    tokens = np.array([e.output_tokens for e in twice]).reshape(60, 2)
    assert row.ceiling == pytest.approx(kendalltau(tokens[:, 0], tokens[:, 1]).statistic)
    scores = [f.score for f in trained.ranker.forecast([e.prompt for e in twice[::2]])]
    tau = np.mean([kendalltau(scores, tokens[:, d]).statistic for d in (0, 1)])
    assert row.share == pytest.approx(tau / row.ceiling)
    assert row.metrics("test")["test.tau_of_ceiling"] == row.share
    assert row.high - row.low > 0.8 * (once.high - once.low)  # 120 rows are 60 prompts


def test_a_few_double_prompts_are_no_ceiling(trained, held):
    def judged(double: int):
        again = [replace(e, id=f"{e.id}/1", output_tokens=e.output_tokens + 5) for e in held]
        return evaluate({"r": trained.ranker}, [*held, *again[:double]])[0]

    few, enough = judged(LEAST_DRAWN - 1), judged(LEAST_DRAWN)
    assert math.isnan(few.ceiling)
    assert math.isnan(few.share)
    assert not any("ceiling" in name for name in few.metrics("test"))
    assert cell(tables.rows([few])[0][tables.COLUMNS.index("tau_of_ceiling")]) == "-"
    assert 0.0 < enough.share < 1.0
    assert enough.metrics("test")["test.tau_ceiling"] == enough.ceiling


def test_flatness_tells_knowledge_from_none(trained, held):
    known = flatness(trained.ranker.forecast([e.prompt for e in held]), held)
    unknown = flatness(trained.baseline.forecast([e.prompt for e in held]), held)
    assert known.share > 0.6
    assert unknown.share < 0.25
    assert Flatness(low=99, high=99, p10=9, p90=999).share == 0.0
    assert Flatness(low=9, high=999, p10=9, p90=999).share == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at least 10"):
        flatness([], [])


def test_too_few_rows(trained, held):
    with pytest.raises(ValueError, match="too few"):
        evaluate({"r": trained.ranker}, held[:1])


def test_the_card_says_what_was_measured_and_quotes_nobody(trained, held, examples):
    rows = evaluate({"r": trained.ranker}, held)
    forecasts = trained.ranker.forecast([e.prompt for e in held])
    flat = flatness(forecasts, held)
    data = Data("toys", "made up", tuple(examples))
    text = card(trained.ranker, data, rows, by_slice(forecasts, held), flat, "2026-01-02")
    assert f"{rows[0].tau:.3f}" in text
    assert "300 rows trained" in text.replace("\n", " ")
    assert "nan" not in text
    assert all(e.prompt not in text for e in examples)


@pytest.mark.slow
def test_the_command_shows_slices_and_says_whether_forecasts_are_honest(
    trained, examples, tmp_path
):
    folder = artifact.save(trained.ranker, tmp_path / "rangé ici")
    rows = [
        {"prompt": e.prompt, "output_tokens": e.output_tokens, "id": e.id, "split": e.split}
        for e in examples
    ]
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ["evaluate", str(folder), "--data", str(table), "--slices"]
    environ = {"COLUMNS": "200", "SHORTFIRST_HOME": str(tmp_path / "home")}
    done = CliRunner().invoke(app, arguments, env=environ)
    assert done.exit_code == 0, done.output
    for word in ("short_long", "tau_of_ceiling", "no-code", "prompt-0", "calibrated: "):
        assert word in done.output
    assert all(e.prompt not in done.output for e in examples)
