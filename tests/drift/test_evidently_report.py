from __future__ import annotations

import dataclasses
import os

import pytest
from scipy import stats

from drift.evidently_report import data_drift
from tests.drift.conftest import sketched

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_it_sees_lengths_that_moved_and_scores_that_did_not(stream, tmp_path):
    before = stream(300, 0.4, 1)
    after = [dataclasses.replace(o, output_tokens=o.output_tokens * 2) for o in stream(300, 0.4, 2)]
    found = data_drift(before, after)
    columns = found.as_dict()
    assert columns["output_tokens"]["drifted"] is True
    assert columns["score"]["drifted"] is False
    expected = stats.ks_2samp(
        [o.output_tokens for o in before], [o.output_tokens for o in after]
    ).pvalue
    assert columns["output_tokens"]["value"] == pytest.approx(expected, rel=1e-6)
    assert os.environ["DO_NOT_TRACK"] == "1"
    assert found.write(tmp_path / "e v" / "d.html").stat().st_size == len(found.html.encode())


def test_it_sees_meaning_that_moved_and_leaves_out_what_no_ranker_embeds(stream):
    rows = stream(300, 0.4, 1)
    found = data_drift(sketched(rows, 1), sketched(rows, 2, shift=1.0))
    expected = max(
        stats.ks_2samp(a, b).statistic
        for a, b in zip(_sketches(rows, 1, 0.0), _sketches(rows, 2, 1.0), strict=True)
    )
    embedding = found.as_dict()["embedding"]
    assert embedding["value"] == pytest.approx(expected, abs=1 / 256)
    assert embedding["drifted"] is True
    assert found.as_dict()["score"]["drifted"] is False
    assert "meaning of prompts" in found.html
    without = data_drift(sketched(rows, 1), rows)
    assert "embedding" not in without.as_dict()
    assert "meaning of prompts" not in without.html


def _sketches(rows, seed, shift):
    return zip(*(o.forecast.sketch for o in sketched(rows, seed, shift)), strict=True)


def test_too_few_scored_outcomes_are_refused(stream):
    with pytest.raises(ValueError, match="current"):
        data_drift(stream(10, 0.4, 1), stream(10, 0.4, 2, scored=False))
