"""What replays gave outlives the service, and status reads it instead of replaying."""

from __future__ import annotations

import dataclasses
import math

import pytest

from drift.config import MonitorConfig
from drift.delivery import Delivery
from drift.efficiency import Shares, Worth
from drift.key import Key
from drift.outcomes import OutcomeStore
from drift.saved import Saved
from drift.sink import MonitoredStore
from drift.status import standing
from drift.valuer import Known, ValueConfig, Valued, Valuer
from drift.values_file import load_values, save_values, values_path
from drift.worker import Worker

CONFIG = MonitorConfig(
    chart=dataclasses.replace(MonitorConfig().chart, streams=8, length=1024), reference_most=400
)
NOW = 1_700_100_000.0


def test_values_come_back_equal(tmp_path):
    path = tmp_path / "v.json"
    assert load_values(path) == {}
    worth = Worth(Shares(0.5, 0.9), (0.4, 0.6), (0.8, 1.0), 1.2)
    known = Known((Valued(1.0, 250, worth),), (0.5, 0.6), Saved(1.0, 0.5, 1.5, 400, 0.7))
    values = {Key("m", "r", "1"): known, Key("m", "r", "1", None, "(other)"): known}
    save_values(path, values)
    assert load_values(path) == values
    blind = dataclasses.replace(worth, efficiency=Shares(math.nan, 0.9), e2el=(math.nan, math.nan))
    save_values(path, {Key("m", "r", "1"): Known((Valued(1.0, 250, blind),), (), None)})
    (back,) = load_values(path)[Key("m", "r", "1")].values
    assert math.isnan(back.worth.efficiency.e2el)
    assert math.isnan(back.worth.e2el[0])
    path.write_text('[{"key": 1}]')
    with pytest.raises(ValueError, match="delete it"):
        load_values(path)


def test_status_reads_what_the_service_replayed(stream, tmp_path, monkeypatch):
    path = tmp_path / "o.db"

    def opened():
        return MonitoredStore.open(
            path, tmp_path / "e.jsonl", lambda: NOW, CONFIG, value=ValueConfig(rest=0.0),
            work=Worker(),
        )  # fmt: skip

    sink, rows = opened(), stream(600, 0.5, 1)
    for start in range(0, 600, 50):
        sink.receive(Delivery(rows[start : start + 50]), NOW)
        sink.work.drain()
    shown = sink.board().models[0].overall
    assert shown.usual_efficiency > 0.3
    sink.close()

    with monkeypatch.context() as without:
        without.delattr(Valuer, "replay")
        store = OutcomeStore(path)
        (row,) = standing(store, CONFIG)
        assert row["usual_efficiency"] == shown.usual_efficiency
        assert row["efficiency_e2el"] == shown.efficiency.value
        assert row["saved_seconds"] == shown.saved_seconds.value
        again = opened()  # nor does a restart forget what was usual
        assert again.board().models[0].overall.usual_efficiency == shown.usual_efficiency
        again.close()
        store.close()

    # What has gone by since is no statement about now: it is replayed.
    store = OutcomeStore(path)
    store.put(stream(600, 0.0, 2, start=600))
    (row,) = standing(store, CONFIG)
    assert row["efficiency_e2el"] < shown.efficiency.value - 0.2
    assert row["usual_efficiency"] == shown.usual_efficiency
    store.close()


def test_a_broken_file_is_no_reason_not_to_serve(stream, tmp_path, caplog):
    values_path(tmp_path / "o.db").write_text("{")
    sink = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", lambda: NOW, CONFIG)
    assert sink.store(stream(3, 0.4, 1)) == (3, 0)
    assert "delete it" in caplog.text
    sink.close()
