"""Reports of every kind into a monitored store, and what the board then shows."""

from __future__ import annotations

import dataclasses
import json
import sqlite3

import pytest

from drift.board import Board
from drift.config import MonitorConfig
from drift.delivery import Delivery, Receipt
from drift.detectors.concordance_cusum import ChartConfig
from drift.key import Key
from drift.metrics import DriftCollector
from drift.opened import Open
from drift.sink import MonitoredStore
from drift.slices import SliceConfig
from drift.states import State
from drift.status import standing
from drift.valuer import ValueConfig, Valuer
from ranker.types import FinishReason

CONFIG = MonitorConfig(chart=ChartConfig(streams=24, length=4096))
NOW = 1_700_100_000.0


@pytest.fixture
def sink(tmp_path):
    made = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", lambda: NOW, CONFIG)
    yield made
    made.close()


def test_the_first_report_counts_and_contradictions_are_counted(sink, stream, caplog):
    rows = stream(6, 0.4, 1)
    assert sink.receive(Delivery(rows), NOW) == Receipt(6, 0, 0)
    assert sink.receive(Delivery(rows), NOW) == Receipt(0, 6, 0)
    others = [
        dataclasses.replace(rows[0], output_tokens=rows[0].output_tokens + 1),
        dataclasses.replace(rows[1], finish_reason=FinishReason.ABORT),
        dataclasses.replace(rows[2], served_model="another"),
        dataclasses.replace(rows[3], arrival=rows[3].arrival - 1.0),  # a retry by another clock
    ]
    assert sink.receive(Delivery(others, reporter="gateway"), NOW) == Receipt(0, 4, 3)
    faults = sink.faults()
    assert (faults.duplicates, faults.conflicts) == (10, 3)
    assert "'gateway'" in caplog.text
    (snapshot,) = sink.snapshots()
    assert snapshot.outcomes == 6


def test_what_could_not_be_stored_is_raised_counted_and_not_weighed(sink, stream):
    rows = stream(300, 0.4, 1)
    (pages,) = sink._store._db.execute("PRAGMA page_count").fetchone()
    sink._store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        sink.receive(Delivery(rows), NOW)
    assert sink.faults().refused == 300
    assert sink.snapshots() == []
    sink._store._db.execute("PRAGMA max_page_count = 100000")
    assert sink.receive(Delivery(rows), NOW).stored == 300


def test_open_requests_are_weighed_once_and_then_settled(sink, stream):
    rows = stream(300, 0.4, 1)
    long = rows[10]
    told = Open(long.request_id, "m", 7, long.arrival, long.arrival + 9, 20, long.forecast)
    sink.receive(Delivery(rows[:10], [told]), NOW)
    sink.receive(Delivery(rows[11:]), NOW)
    (snapshot,) = sink.snapshots()
    assert (snapshot.outcomes, snapshot.bounds, snapshot.settled) == (300, 1, 0)
    assert snapshot.cohort.censored_share == pytest.approx(1 / 300)
    sink.receive(Delivery([long], [told]), NOW)
    (snapshot,) = sink.snapshots()
    assert (snapshot.outcomes, snapshot.bounds, snapshot.settled) == (300, 1, 1)
    assert snapshot.late == 0
    assert snapshot.cohort.censored_share == 0.0
    assert snapshot.open == 0


def _mixed(stream, bad_from=1800, n=3000):
    """Three tenants; the forecasts of one lose all order at ``bad_from``."""
    good, bad = stream(n, 0.45, 1), stream(n, 0.0, 2)
    rows = []
    for i, (a, b) in enumerate(zip(good, bad, strict=True)):
        tenant = f"t{i % 3}"
        chosen = b if tenant == "t2" and i >= bad_from else a
        rows.append(dataclasses.replace(chosen, request_id=f"{i}", tenant=tenant, lane="chat"))
    return rows


@pytest.mark.slow
def test_the_board_names_the_slice_that_is_hurt(stream, tmp_path):
    now = [NOW]
    events = []
    config = dataclasses.replace(CONFIG, reference_most=400, slices=SliceConfig(least=50))
    sink = MonitoredStore.open(
        tmp_path / "o.db", tmp_path / "e.jsonl", lambda: now[0], config, events.append,
        ValueConfig(rest=300.0),
    )  # fmt: skip
    rows = _mixed(stream)
    for start in range(0, len(rows), 100):
        now[0] += 60.0
        sink.receive(Delivery(rows[start : start + 100], reporter="engine"), now[0])
    alerts = [event for event in events if event.alert]
    assert alerts[0].tenant == "t2"
    assert alerts[0].lane == "chat"
    board = sink.board()
    (model,) = board.models
    hurt = model.slices[0]
    assert (hurt.tenant, hurt.lane) == ("t2", "chat")
    assert hurt.harm == max(row.harm for row in model.slices) > 0.02
    assert State[hurt.state.upper()] >= State.DEGRADED
    assert hurt.efficiency.value < hurt.usual_efficiency
    assert hurt.efficiency.low < hurt.efficiency.value < hurt.efficiency.high
    assert sum(row.traffic for row in model.slices) == pytest.approx(1.0, abs=0.05)
    assert {row.label for row in model.slices} >= {"tenant t0, lane chat", "everybody else"}
    assert model.overall.concordance.value == pytest.approx(
        (1.0 + model.overall.tau.value) / 2.0, abs=0.02
    )
    assert [level.level for level in model.calibration] == sorted(
        level.level for level in model.calibration
    )
    assert {shift.name for shift in model.shifts} == {
        "output_tokens", "prompt_tokens", "score", "novelty",
    }  # fmt: skip
    assert sum(map(sum, model.density.counts)) + model.density.left_out == 500
    assert model.history[-1].tau.value is not None
    assert [w.outcome for w in model.worth] == sorted(w.outcome for w in model.worth)
    assert (board.reporters[0].reporter, board.reporters[0].outcomes) == ("engine", len(rows))
    again = json.loads(json.dumps(board.as_dict(), allow_nan=False))
    assert again["models"][0]["slices"][0]["tenant"] == "t2"
    samples = {
        (s.name, s.labels["tenant"]): s.value
        for family in DriftCollector(sink).collect()
        for s in family.samples
        if "tenant" in s.labels
    }
    assert samples["shortfirst_drift_slice_state", "t2"] >= 2.0
    assert samples["shortfirst_drift_slice_harm", "t2"] == hurt.harm
    found = standing(sink._store, config)
    assert next(row["tenant"] for row in found if row["tenant"] is not None) == "t2"
    assert found[0]["harm"] >= found[-1]["harm"]
    sink.close()


def test_an_empty_board_is_a_board(sink):
    board = sink.board()
    assert isinstance(board, Board)
    assert (board.headline.state, board.models, board.reporters) == ("ok", (), ())
    assert json.loads(json.dumps(board.as_dict(), allow_nan=False))["faults"]["refused"] == 0


def test_little_is_known_at_first_and_nan_is_no_number(sink, stream):
    sink.receive(Delivery(stream(5, 0.4, 1, scored=False)), NOW)
    board = sink.board()
    json.dumps(board.as_dict(), allow_nan=False)
    row = board.models[0].overall
    assert (row.tau.value, row.efficiency.value, row.reference_tau) == (None, None, None)
    assert row.unscored == 1.0


def test_survivorship_reaches_the_board(sink, stream):
    rows = stream(7000, 0.4, 3)
    now = rows[-1].arrival + 900.0
    for outcome in rows:
        sink.ranked("m", [outcome.forecast], outcome.arrival)
    short = [o for o in rows if o.output_tokens <= 250]
    sink._monitor.update = lambda outcome: []  # only who reports is looked at here
    sink.receive(Delivery(short, reporter="engine"), now)
    sink._clock = lambda: now
    look = next(iter(sink._book.survival(now).values()))
    assert look.selective


def test_replays_take_turns_and_rest():
    valuer = Valuer(ValueConfig(every=100, rest=10.0))
    whole = Key("m", "r", "1")
    part = dataclasses.replace(whole, lane="", tenant="t")

    def due(now, **outcomes):
        named = {"whole": whole, "part": part}
        rows = [
            (named[name], count, state)
            for name, (count, state) in ((n, v if isinstance(v, tuple) else (v, State.OK))
            for n, v in outcomes.items())
        ]  # fmt: skip
        turn = valuer.due(rows, now)
        return None if turn is None else turn.key.label

    assert due(0.0, whole=99) is None
    assert due(0.0, part=100, whole=100) == "all"
    assert due(0.0, part=100, whole=100) == "tenant t"  # never replayed: no rest
    assert due(5.0, part=200, whole=200) is None
    assert due(10.0, part=200, whole=200) == "all"
    assert due(20.0, part=300, whole=250) == "tenant t"
    assert due(21.0, part=(301, State.WARN), whole=500) == "tenant t"  # who got worse is first
    assert due(22.0, part=(320, State.WARN), whole=500) is None
    assert valuer.due([(whole, 500, State.OK)], 400.0).seconds


def test_a_tenant_with_the_name_of_the_rest_has_metrics_of_its_own(sink, stream):
    rows = [
        dataclasses.replace(o, tenant=("(other)", f"small {i}")[i % 2], lane=("(other)", "")[i % 2])
        for i, o in enumerate(stream(260, 0.4, 1))
    ]
    sink.receive(Delivery(rows), NOW)
    tracked = {
        (s.labels["lane"], s.labels["tenant"])
        for family in DriftCollector(sink).collect()
        for s in family.samples
        if s.name == "shortfirst_drift_slice_state"
    }
    assert tracked == {("(other)", "(other)"), ("\\(other)", "\\(other)")}
