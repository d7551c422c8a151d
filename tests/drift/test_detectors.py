from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from drift.detectors.bootstrap import BootstrapConfig, copies, excursions, tail_limit
from drift.detectors.catalogue import CONCORDANCE, PIT, TAU_WINDOW, methods
from drift.detectors.concordance_cusum import ChartConfig, ConcordanceCusum
from drift.detectors.cusum import Cusum, cusums
from drift.detectors.e_process import EProcess, EProcessConfig
from drift.detectors.page_hinkley import PageHinkleyConfig
from drift.detectors.pit_cusum import PitConfig
from drift.detectors.protocol import Kind
from drift.detectors.psi import PsiConfig
from drift.detectors.rolling_error import RollingErrorConfig
from drift.detectors.sample import Sample
from drift.detectors.tau_window import TauWindow, TauWindowConfig
from tests.drift.detectors_parts import make_sample

SMALL = BootstrapConfig(blocks=(1, 16), streams=16, length=2048)
ARL = (2_000.0, 20_000.0)


@pytest.fixture(scope="module")
def fits():
    reference = make_sample(900, 0.4, 1)
    found = methods() | {
        TAU_WINDOW: TauWindow(TauWindowConfig(window=200, every=10, streams=8, length=2048))
    }
    return {name: method.fit(reference, ARL, SMALL) for name, method in found.items()}


@pytest.mark.parametrize("name", methods())
def test_one_stream_at_a_time_gives_what_many_at_once_give(fits, name):
    stream = make_sample((700, 1), 0.25, 2, limit=900)
    detector = fits[name].detector()
    heights, alarms = [], []
    for time in range(len(stream)):
        detector.update(stream.row(time))
        heights.append(detector.height)
        alarms.append(detector.drift_detected)
    together = fits[name].heights(stream)[:, 0]
    # A running chart stops at its limit, so that it can come down again.
    limit = detector.limit
    above = np.flatnonzero(together >= limit)
    calm = int(above[0]) if len(above) else len(together)
    np.testing.assert_allclose(heights[:calm], together[:calm], atol=1e-9)
    assert alarms[: calm + 1] == [False] * calm + [True] * (calm < len(together))


#: Outcome at which each alarms: 400 usual ones, then none of the order is left, or all lengths
#: have doubled. Changes here change what operators are told.
GOLDEN = {
    CONCORDANCE: (439, None),
    TAU_WINDOW: (469, None),
    "e-process": (611, None),
    "page-hinkley": (446, None),
    PIT: (None, 419),
    "rolling-error": (635, 588),
    "psi": (None, None),
    "dummy": (None, None),
    "no-drift": (None, None),
}


@pytest.mark.parametrize("name", methods())
def test_alarms_come_where_they_came(fits, name):
    usual = make_sample(400, 0.4, 3)
    for what, want in zip(
        (make_sample(400, 0.0, 4), make_sample(400, 0.4, 4, scale=2.0)), GOLDEN[name], strict=True
    ):
        detector, alarm = fits[name].detector(1), None
        for part in (usual, what):
            for time in range(len(part)):
                detector.update(part.row(time))
                if detector.drift_detected and alarm is None:
                    alarm = time + (0 if part is usual else 400)
        assert alarm == want


@pytest.mark.parametrize("name", methods())
def test_reset_makes_a_detector_as_new(fits, name):
    stream = make_sample(300, 0.1, 5)
    used, new = fits[name].detector(), fits[name].detector()
    for time in range(len(stream)):
        used.update(stream.row(time))
    used.reset()
    for time in range(250):
        used.update(stream.row(time))
        new.update(stream.row(time))
        assert (used.height, used.drift_detected) == (new.height, new.drift_detected)


@pytest.mark.parametrize("name", [n for n in methods() if n not in ("dummy", "no-drift")])
def test_limits_rise_with_the_run_length_asked_for(fits, name):
    often, seldom = fits[name].limits
    assert 0.0 < often < seldom < math.inf
    assert fits[name].detector(1).limit == seldom


def test_rank_detectors_do_not_see_scale_and_the_scale_detector_does(fits):
    longer = make_sample((400, 24), 0.4, 6, scale=2.0)
    for name, method in methods().items():
        alarmed = (fits[name].heights(longer) >= fits[name].limits[1]).any(axis=0).mean()
        if method.kind is Kind.RANK:
            assert alarmed <= 0.1, name
    first = (fits[PIT].heights(longer) >= fits[PIT].limits[1]).argmax(axis=0)
    assert np.median(first) < 40


def test_a_reference_gives_the_same_limits_every_time_and_refuses_what_says_nothing():
    reference = make_sample(400, 0.4, 7)
    for method in methods().values():
        again = [method.fit(reference, (500.0,), SMALL).limits for _ in range(2)]
        assert again[0] == again[1]
    blind = replace(reference, censored=np.ones(400, np.bool_))
    for name in (CONCORDANCE, TAU_WINDOW, "e-process", "page-hinkley"):
        with pytest.raises(ValueError, match="no pair"):
            methods()[name].fit(blind, (500.0,), SMALL)
    for name in (CONCORDANCE, "e-process"):
        with pytest.raises(ValueError, match="chance"):
            methods()[name].fit(make_sample(400, -0.4, 8), (500.0,), SMALL)
    bare = Sample(reference.scores, reference.tokens, reference.censored)
    for name in (PIT, "rolling-error", "psi"):
        with pytest.raises(ValueError, match="is needed"):
            methods()[name].fit(bare, (500.0,), SMALL)


def test_the_e_detector_keeps_its_promise_without_calibration():
    # Exactly at the mean that counts as no change, where the bound is to hold.
    reference = make_sample(3000, 0.4, 9)
    fit = EProcess(EProcessConfig(share=1.0, caution=0.0)).fit(reference, (300.0,))
    streams = copies(reference, 300, 1200, 1, np.random.default_rng(10))
    alarms = fit.heights(streams) >= fit.limits[0]
    first = np.where(alarms.any(axis=0), alarms.argmax(axis=0) + 1.0, len(alarms))
    assert first.sum() / max(1, alarms.any(axis=0).sum()) > 300.0


def test_the_e_detector_stays_finite_however_long_a_shift_lasts():
    config = EProcessConfig(group=2, bets=(0.9,))  # the fastest there is
    detector = EProcess(config).fit(make_sample(900, 0.4, 1), ARL).detector()
    bad = make_sample((4000, 1), -0.9, 12)
    for time in range(len(bad)):
        detector.update(bad.row(time))
    top = detector.height
    assert math.isfinite(top)
    assert top > 300.0
    good = make_sample((600, 1), 0.9, 13)
    for time in range(len(good)):
        detector.update(good.row(time))
    assert detector.height < top - 10.0


@pytest.mark.parametrize("seed", [1, 2])
def test_the_running_sum_is_the_chart_without_a_loop(seed):
    rises = np.random.default_rng(seed).normal(-0.1, 1.0, (500, 4))
    together = cusums(rises)
    for k in range(4):
        one = Cusum()
        for t in range(500):
            assert one.add(float(rises[t, k])) == pytest.approx(together[t, k], abs=1e-8)


def test_excursions_are_the_peaks_between_zeros():
    heights = np.array([[0, 1, 3, 0, 0, 2, 1.0]]).T
    assert excursions(heights).tolist() == [2.0, 3.0]
    assert excursions(np.zeros((5, 2))).tolist() == []


def test_the_tail_is_exponential():
    rng = np.random.default_rng(11)
    peaks = np.sort(rng.exponential(2.0, 4000))
    # Of 4,000 in 40,000 outcomes, one in 1,000,000 lies at 2 ln 100,000.
    assert tail_limit(peaks, 40_000, 1e6) == pytest.approx(2.0 * math.log(1e5), rel=0.12)


def test_a_copy_of_a_reference_holds_only_rows_of_it():
    sample = make_sample(100, 0.4, 12)
    drawn = copies(sample, 5, 300, 16, np.random.default_rng(0))
    assert drawn.scores.shape == (300, 5)
    for k in range(5):
        seen = np.unique(drawn.scores[:, k])
        assert np.isin(seen, sample.scores).all()
        assert len(seen) < 100  # a copy leaves some out


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (BootstrapConfig, "streams", 0),
        (BootstrapConfig, "blocks", ()),
        (BootstrapConfig, "length", 100),
        (ChartConfig, "neighbours", 0),
        (TauWindowConfig, "window", 1),
        (TauWindowConfig, "every", 0),
        (TauWindowConfig, "length", 600),
        (EProcessConfig, "group", 1),
        (EProcessConfig, "share", 0.0),
        (EProcessConfig, "bets", (1.0,)),
        (PageHinkleyConfig, "delta", 1.0),
        (PitConfig, "allowance", 0.0),
        (PitConfig, "caution", -1.0),
        (PsiConfig, "bins", 1),
        (RollingErrorConfig, "window", 0),
    ],
)
def test_settings_are_checked_by_name(kind, field, value):
    with pytest.raises(ValueError, match=field):
        kind(**{field: value})


def test_shapes_of_a_sample_are_checked_by_name():
    sample = make_sample(10, 0.4, 13)
    with pytest.raises(ValueError, match="tokens"):
        Sample(sample.scores, sample.tokens[:-1], sample.censored)


def test_a_method_says_what_its_alarm_means():
    kinds = {name: method.kind for name, method in methods().items()}
    assert kinds[CONCORDANCE] is Kind.RANK
    assert kinds[PIT] is Kind.SCALE
    assert kinds["psi"] is Kind.COVARIATE
    assert ConcordanceCusum().kind is Kind.RANK
