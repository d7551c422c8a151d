"""The closed-loop replay on invented traffic: arrivals, engine, monitor, measures, command."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from drift.states import State
from engine.core.policies import Fcfs, Ranked
from engine.core.policies.catalogue import make
from engine.core.request import Request
from engine.simulator import simulate
from serving.cli import drift, drift_act_replay
from serving.drift_bench.acting.config import REVERSED, ActingConfig
from serving.drift_bench.acting.course import courses
from serving.drift_bench.acting.loop import Loop, Run
from serving.drift_bench.acting.parts import Marks, marks, masks, ratios
from serving.drift_bench.acting.scene import reversed_scores, scene, story
from serving.drift_bench.acting.study import FCFS, Study, runs_of, study
from serving.drift_bench.acting.summary import Spread, delays, lines
from tests.serving.drift_world import make_pool, make_traffic

SMALL = ActingConfig(
    warm_up=100, usual=300, changed=700, again=1100, policies=("ranked",), seeds=1, window=100,
    seed=20261131,
)  # fmt: skip
ENGINE = SMALL.streams.engine


@pytest.fixture(scope="module")
def traffic():
    return make_traffic()


@pytest.fixture(scope="module")
def arrivals(traffic):
    return scene(story(traffic, "lost"), SMALL, np.random.default_rng(3))


@pytest.fixture(scope="module")
def few(traffic):
    """A burst, and half of the next."""
    config = replace(SMALL, warm_up=0, usual=100, changed=200, again=100)
    return scene(story(traffic, "lost"), config, np.random.default_rng(5))


@pytest.fixture(scope="module")
def found(traffic):
    return finished(study(traffic, SMALL))


def finished(begun, advance=lambda: None):
    return replace(begun, replays=tuple(begun.run(advance)))


class Witness:
    """Trusts the first ``since`` arrivals and leaves ``after`` to later ones; remembers what it is
    told."""

    def __init__(self, after: float, since: int = 0) -> None:
        self.after, self.since = after, since
        self.stamps = 0
        self.outcomes = []
        self.opens = []

    @property
    def state(self):
        return State.OK

    def stamped(self, forecast):
        self.stamps += 1
        return replace(forecast, trust=self.after) if self.stamps > self.since else forecast

    def heard(self, outcome):
        self.outcomes.append((self.stamps, outcome))

    def under_way(self, requests):
        self.opens.append((self.stamps, requests))


def test_reversed_scores_order_the_other_way_round():
    pool = make_pool(300, 0.4, 1)
    other = reversed_scores(pool)
    assert other.tau == pytest.approx(-pool.tau)
    np.testing.assert_array_equal(np.sort(other.scores), np.sort(pool.scores))
    np.testing.assert_array_equal(other.tokens, pool.tokens)
    # A forecast keeps its quantiles: the row of each score is the row of its quantiles.
    rows = {score: tuple(q) for score, q in zip(pool.scores, pool.quantiles, strict=True)}
    assert all(
        rows[score] == tuple(q) for score, q in zip(other.scores, other.quantiles, strict=True)
    )
    np.testing.assert_array_equal(reversed_scores(other).scores, pool.scores)


def test_traffic_changes_and_comes_back(traffic, arrivals):
    usual = arrivals.rows < arrivals.deck.usual
    changed = slice(SMALL.change, SMALL.back)
    assert usual[: SMALL.change].all()
    assert not usual[changed].any()
    assert usual[SMALL.back :].all()
    assert (np.diff(arrivals.times) >= 0).all()
    assert arrivals.times[0] == 0.0
    again = scene(story(traffic, "lost"), SMALL, np.random.default_rng(3))
    np.testing.assert_array_equal(again.times, arrivals.times)


def test_load_is_the_same_whatever_lengths_become(traffic):
    told = story(traffic, "lost")
    tenfold = told.shift.pool.served(10**6, 10.0)
    long = replace(told, shift=replace(told.shift, pool=tenfold))
    config = replace(SMALL, limit=10**6)
    drawn = scene(long, config, np.random.default_rng(4))
    batch = ENGINE.scheduler.max_num_seqs
    pool = drawn.deck.pool
    for part in (slice(0, config.change), slice(config.change, config.back)):
        rows = drawn.rows[part]
        work = sum(
            ENGINE.cost.work(int(pool.prompt_tokens[r]), int(pool.tokens[r]), batch) for r in rows
        )
        span = drawn.times[part][-1] - drawn.times[part][0]
        assert work / span == pytest.approx(config.streams.load, rel=0.35)


@pytest.mark.parametrize("policy", ["fcfs", "ranked", "ltr", "boost-fast", "srpt_predicted"])
def test_without_a_monitor_it_is_the_simulator(few, policy):
    def build():
        return make(policy, cost=ENGINE.cost, batch=ENGINE.scheduler.max_num_seqs)

    pool, rows = few.deck.pool, few.rows.tolist()
    requests = [
        Request(
            str(number),
            time,
            max(1, int(pool.prompt_tokens[row])),
            few.deck.forecasts[row],
            int(pool.tokens[row]),
        )
        for number, (row, time) in enumerate(zip(rows, few.times.tolist(), strict=True))
    ]
    expected = simulate(requests, ENGINE.scheduler, build(), ENGINE.cost).timings
    took = dict(zip(expected.ids, expected.e2el, strict=True))
    run = Loop(few, build(), ENGINE).run()
    np.testing.assert_allclose(run.e2el, [took[str(n)] for n in range(len(rows))], rtol=1e-6)
    assert (run.trust == 1.0).all()


def test_full_trust_changes_nothing_and_no_trust_is_fcfs(few):
    plain, fcfs = (Loop(few, policy, ENGINE).run() for policy in (Ranked(), Fcfs()))
    full = Loop(few, Ranked(), ENGINE, Witness(1.0)).run()
    none = Loop(few, Ranked(), ENGINE, Witness(0.0)).run()
    np.testing.assert_array_equal(full.e2el, plain.e2el)
    np.testing.assert_array_equal(none.e2el, fcfs.e2el)
    assert (none.trust == 0.0).all()


def test_nothing_is_heard_before_it_happened_and_everything_afterwards(arrivals):
    witness = Witness(1.0)
    Loop(arrivals, Ranked(), ENGINE, witness, open_every=2.0).run()
    for stamps, outcome in witness.outcomes:
        assert outcome.finished <= arrivals.times[stamps]
    ends = [outcome.finished for _, outcome in witness.outcomes]
    assert ends == sorted(ends)
    assert len(ends) > 0.9 * len(arrivals)
    for _, outcome in witness.outcomes[:50]:
        row = arrivals.rows[int(outcome.request_id)]
        assert outcome.output_tokens == arrivals.deck.pool.tokens[row]
        assert outcome.forecast == arrivals.deck.forecasts[row]
    ended = {}
    for stamps, outcome in witness.outcomes:
        ended.setdefault(stamps, []).append(outcome.request_id)
    gone = set()
    told = dict(witness.opens)
    for stamps in range(len(arrivals)):
        gone.update(ended.get(stamps, ()))
        assert all(r.request_id not in gone for r in told.get(stamps, ()))
    assert any(len(requests) > 8 for _, requests in witness.opens)  # who waits is under way too


def test_who_waits_is_ordered_by_arrival_once_trust_is_gone(arrivals):
    """Otherwise those that waited longest, scored, would wait for all who come unscored."""
    since = 60
    run = Loop(arrivals, Ranked(), ENGINE, Witness(0.0, since)).run()
    fcfs = Loop(arrivals, Fcfs(), ENGINE).run()
    then = arrivals.times[since]
    ends = arrivals.times[: since + 200] + run.e2el[: since + 200]
    waited = np.flatnonzero((ends > then + 5.0) & (np.arange(len(ends)) < since))
    assert len(waited) > 3
    # Nobody who came later may end long after FCFS would have ended it.
    assert run.e2el[since:].max() <= 1.05 * fcfs.e2el[since:].max()
    assert run.trust[since - 1] == 1.0
    assert run.trust[since] == 0.0


def test_marks_are_where_trust_goes_and_comes():
    config = replace(SMALL, warm_up=2, usual=3, changed=5, again=5)
    trust = np.ones(15)
    trust[7:12] = 0.0
    run = Run(np.ones(15), trust, np.zeros(15, np.int64))
    assert marks(run, config) == Marks(2.0, 2.0, early=False)
    parts = masks(marks(run, config), config)
    assert {name: part.sum() for name, part in parts.items()} == {
        "usual": 3,
        "changed": 5,
        "found": 3,
        "again": 5,
        "returned": 3,
    }
    never = marks(Run(np.ones(15), np.ones(15), np.zeros(15, np.int64)), config)
    assert never == Marks(math.inf, math.inf, early=False)
    assert not masks(never, config)["found"].any()
    trust[3] = 0.2
    assert marks(run, config).early


def test_ratios_are_of_the_same_requests():
    fcfs = Run(np.array([1.0, 2.0, 3.0, 4.0, 50.0]), np.ones(5), np.zeros(5, np.int64))
    run = Run(np.array([2.0, 1.0, 3.0, 8.0, 50.0]), np.ones(5), np.zeros(5, np.int64))
    part = np.array([True, True, True, True, False])
    found = ratios(run, fcfs, np.array([5, 1, 2, 9, 3]), part, 0.25)
    assert found.requests == 4
    assert found.mean == pytest.approx(14 / 10)
    assert found.seconds == pytest.approx(np.quantile([1, 2, 3, 8], 0.99))
    assert found.p99 == pytest.approx(found.seconds / np.quantile([1, 2, 3, 4], 0.99))
    assert found.longest == pytest.approx(2.0)  # the one of 9 tokens took 8 s instead of 4
    assert ratios(run, fcfs, np.arange(5), np.zeros(5, np.bool_), 0.25).requests == 0


def test_spreads_leave_out_what_is_unknown():
    assert Spread.of([3.0, math.nan, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([math.inf, 1.0, math.inf]).median == math.inf
    assert math.isnan(Spread.of([]).median)


def test_acting_keeps_the_tail_of_fcfs_where_order_alone_is_far_worse(found):
    (row,) = found.rows
    assert row.marks.found < 120
    assert row.marks.returned < 1000
    assert not row.marks.early
    assert row.plain["found"].p99 > 1.5
    assert row.acting["changed"].p99 <= 1.10  # those that came before it was found among them
    assert row.acting["changed"].mean < row.plain["changed"].mean
    # The last of usual traffic may still wait when trust goes.
    assert row.acting["usual"].mean == pytest.approx(row.plain["usual"].mean, rel=0.02)
    assert row.acting["returned"].mean < 0.95  # trust is back, and what it is worth
    assert found.left == pytest.approx(-1.0, abs=0.1)


def test_the_table_and_the_figures_say_the_same(found):
    plain, acting = lines(found)
    (row,) = found.rows
    assert (plain.acting, acting.acting) == (False, True)
    assert acting.parts["found"].p99.median == row.acting["found"].p99
    assert (acting.parts["found"].within, plain.parts["found"].within) == (1, 0)
    assert delays(found)[0].found.median == row.marks.found
    over = courses(found)
    assert len(over.at) == (SMALL.arrivals - SMALL.warm_up) // SMALL.window
    assert over.at[0] == -SMALL.usual + SMALL.window / 2
    early = over.at < -SMALL.window
    np.testing.assert_array_equal(over.acting["ranked"].p99[early], over.plain["ranked"].p99[early])
    last = found.replays[0].plain[FCFS].e2el[-SMALL.window :]
    assert over.fcfs.p99[-1] == pytest.approx(np.quantile(last, 0.99))
    low = over.acting["ranked"].trust
    assert low.min() == 0.0
    assert low[early].min() == 1.0
    assert over.acting["ranked"].state.max() >= State.DEGRADED


def test_the_same_seed_gives_the_same_rows(traffic, found):
    done = []
    again = finished(study(traffic, SMALL), lambda: done.append(1))
    assert again.rows == found.rows
    assert len(done) == runs_of(SMALL) == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [("usual", 0), ("seeds", 0), ("warm_up", -1), ("policies", ()), ("longest", 1.0),
     ("open_every", 0.0)],
)  # fmt: skip
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        replace(SMALL, **{field: value})


def test_names_that_are_not_there_are_refused(traffic):
    with pytest.raises(ValueError, match="no 'weather'; there are reversed, lost, most"):
        study(traffic, replace(SMALL, shift="weather"))
    with pytest.raises(ValueError, match="policy must be one of"):
        study(traffic, replace(SMALL, policies=("fastest",)))
    assert story(traffic, REVERSED).shift.name == REVERSED


def run(*arguments):
    return CliRunner().invoke(drift.app, ["act-replay", *map(str, arguments)])


def test_the_command_shows_who_gains_and_who_pays(monkeypatch, traffic, tmp_path):
    monkeypatch.setattr(drift_act_replay, "load", lambda *_: traffic)
    page = tmp_path / "étude 1.html"
    small = ["--seeds", 1, "--policies", "ranked", "--warm-up", 50, "--usual", 150]
    small += ["--changed", 450, "--again", 150]
    shown = run(*small, "--plot", page)
    assert shown.exit_code == 0
    assert "once found" in shown.stdout
    assert "monitor acting: p99 within 1.10x" in shown.output
    assert page.stat().st_size > 100_000
    assert "ranked, monitor acting" in page.read_text(encoding="utf-8")
    told = json.loads(run(*small, "--json").stdout)
    assert told["shift"] == "reversed"
    (row,) = told["rows"]
    assert row["acting"]["found"]["p99"] <= 1.10
    assert row["acting"]["changed"]["mean"] < row["plain"]["changed"]["mean"]
    assert row["marks"]["returned"] is None  # too soon for that


def test_an_interrupted_study_shows_what_it_has(monkeypatch, traffic):
    monkeypatch.setattr(drift_act_replay, "load", lambda *_: traffic)
    whole = Study.run

    def interrupted(self, advance):
        yield next(whole(self, advance))
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "run", interrupted)
    small = ["--seeds", 2, "--policies", "ranked", "--warm-up", 0, "--usual", 50]
    shown = run(*small, "--changed", 60, "--again", 10, "--json")
    assert "this is what there is" in shown.stderr
    assert len(json.loads(shown.stdout)["rows"]) == 1


def test_actions_can_be_switched_off(monkeypatch, traffic):
    monkeypatch.setattr(drift_act_replay, "load", lambda *_: traffic)
    small = ["--seeds", 1, "--policies", "ranked", "--warm-up", 0, "--usual", 100]
    small += ["--changed", 450, "--again", 10, "--json"]
    every = [flag for name in drift_act_replay.ACTIONS for flag in ("--off", name)]
    (row,) = json.loads(run(*small, *every).stdout)["rows"]
    assert row["marks"]["found"] is None
    assert row["acting"]["changed"] == row["plain"]["changed"]
    assert "--off must be one of" in str(run("--off", "pray").exception)
