from __future__ import annotations

import dataclasses
import os

import pytest
from scipy import stats

from drift.evidently_report import data_drift

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


def test_too_few_scored_outcomes_are_refused(stream):
    with pytest.raises(ValueError, match="current"):
        data_drift(stream(10, 0.4, 1), stream(10, 0.4, 2, scored=False))
