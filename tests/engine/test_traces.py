import csv
import json

import numpy as np
import pytest

from engine.core.config import SchedulerConfig
from engine.prefixes import Sharing, chain, shared_chains
from engine.trace_files import read_trace, trace_names
from engine.traces import Trace
from engine.workload import Lengths
from ranker.types import LEVELS, Forecast

ROWS = [  # trace, arrival, input, output, tenant, prefix
    ("day", 12.0, 30, 5, "a", "p"),
    ("day", 10.0, 40, 6, "b", None),
    ("day", 11.5, 50, 0, "a", "p"),
    ("day", 14.0, 60, 7, "a", "q"),
    ("night", 1.0, 70, 8, None, None),
    ("nightly", None, 80, 9, None, None),
]
NAMES = ("trace", "arrival_s", "input_tokens", "output_tokens", "tenant", "prefix_hash")


def write(folder, suffix, rows=ROWS, names=NAMES):
    path = folder / f"trace{suffix}"
    table = [dict(zip(names, row, strict=True)) for row in rows]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    elif suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(table)
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(table), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_reads_the_same_from_every_format(tmp_path, suffix):
    path = write(tmp_path, suffix)
    assert trace_names(path) == ["day", "night", "nightly"]
    trace = read_trace(path, "day")
    assert trace.name == "day"
    assert trace.arrivals.tolist() == [0.0, 2.0, 4.0]  # in order; the empty answer is left out
    assert trace.lengths.prompt_tokens.tolist() == [40, 30, 60]
    assert trace.lengths.output_tokens.tolist() == [6, 5, 7]
    assert trace.tenants == ("b", "a", "a")
    assert trace.prefixes == ("", "p", "q")
    assert trace.sessions is None
    assert read_trace(path, "da").name == "day"
    night = read_trace(path, "night")  # a whole name, though another begins so
    assert (night.tenants, night.prefixes, len(night)) == (None, None, 1)
    assert read_trace(path, "nightl").arrivals is None


def test_a_file_may_be_one_trace(tmp_path):
    names = ("arrival_s", "input_tokens", "output_tokens")
    path = write(tmp_path, ".csv", [(1.0, 2, 3)], names)
    assert trace_names(path) == []
    assert read_trace(path).name == "trace"
    with pytest.raises(ValueError, match="no column trace"):
        read_trace(path, "day")


@pytest.mark.parametrize(
    ("rows", "name", "message"),
    [
        (ROWS, None, "day, night, nightly"),
        (ROWS, "n", "must be one of"),
        (ROWS, "week", "must be one of"),
        ([("x", 1.0, 3, 0, "", "")], "x", "no request"),
        ([("x", 1.0, 3, 2, "", ""), ("x", None, 3, 2, "", "")], "x", "all rows or in none"),
        ([("x", "soon", 3, 2, "", "")], "x", "seconds"),
        ([("x", 1.0, "secret", 2, "", "")], "x", "input_tokens must be a whole number"),
        ([("x", 1.0, 3.5, 2, "", "")], "x", "whole number"),
    ],
)
def test_says_what_is_wrong_and_never_quotes_a_cell(tmp_path, rows, name, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_trace(write(tmp_path, ".csv", rows), name)
    assert "secret" not in str(caught.value)


def drawn(count=200, span=1000.0, **columns):
    rng = np.random.default_rng(3)
    arrivals = np.sort(rng.uniform(0.0, span, count))
    lengths = Lengths(rng.integers(1, 900, count), rng.integers(1, 300, count))
    return Trace("drawn", arrivals - arrivals[0], lengths, **columns)


def test_windows_begin_at_zero():
    trace = drawn()
    part = trace.window(50, 20)
    assert len(part) == 20
    assert part.arrivals[0] == 0.0
    assert np.allclose(np.diff(part.arrivals), np.diff(trace.arrivals[50:70]))
    assert (part.lengths.prompt_tokens == trace.lengths.prompt_tokens[50:70]).all()
    with pytest.raises(ValueError, match="window"):
        trace.window(190, 20)


def test_rates_scale_gaps_and_nothing_else():
    trace = drawn()
    faster = trace.at_rate(4.0)
    assert len(faster) / faster.span == pytest.approx(4.0)
    assert np.allclose(np.diff(faster.arrivals) / np.diff(trace.arrivals), 50.0 / trace.span)
    assert trace.scaled(0.5).span == pytest.approx(trace.span / 2)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            trace.scaled(bad)
        with pytest.raises(ValueError, match="above 0"):
            trace.at_rate(bad)


def test_jitter_stays_within_the_quantum_and_keeps_rows_together():
    coarse = np.floor(drawn().arrivals / 3.0) * 3.0
    trace = Trace("coarse", coarse, drawn().lengths)
    fine = trace.jittered(3.0, np.random.default_rng(0))
    assert (np.diff(fine.arrivals) > 0).all()
    assert sorted(fine.lengths.prompt_tokens) == sorted(trace.lengths.prompt_tokens)
    # Quanta are the order of the coarse clock: within 3 s of their place, after moving to zero.
    assert (np.abs(fine.arrivals - trace.arrivals) <= 3.0).all()


def test_what_cannot_fit_is_left_out():
    trace, config = drawn(), SchedulerConfig(4, 64, 16, 40)  # 640 tokens
    kept = trace.fitting(config)
    total = trace.lengths.prompt_tokens + trace.lengths.output_tokens
    assert len(kept) == (total <= 640).sum() < len(trace)
    with pytest.raises(ValueError, match="no request"):
        trace.fitting(SchedulerConfig(4, 64, 1, 1))


def test_lengths_alone_need_arrivals():
    bare = Trace("bare", None, drawn().lengths)
    with pytest.raises(ValueError, match="with_arrivals"):
        bare.requests()
    dressed = bare.with_arrivals(np.arange(200.0))
    assert dressed.requests()[7].arrival == 7.0


def test_requests_row_by_row():
    forecast = Forecast(1.0, (1.0,) * len(LEVELS), "r", "1")
    trace = drawn(4, tenants=("a", "b", "a", "c"), prefixes=("p", "", "p", "q"))
    made = trace.requests([forecast] * 4, block_size=16)
    assert [r.id for r in made] == ["0", "1", "2", "3"]
    assert [r.tenant for r in made] == ["a", "b", "a", "c"]
    assert [r.true_tokens for r in made] == trace.lengths.output_tokens.tolist()
    assert made[0].forecast is forecast
    with pytest.raises(ValueError, match="forecasts"):
        trace.requests([forecast])


@pytest.mark.parametrize("sharing", list(Sharing))
def test_prompts_that_begin_alike_share_what_the_trace_says(sharing):
    tokens = (2000, 5000, 700, 3000)
    a, b, short, other = shared_chains(("p", "p", "p", "q"), tokens, 16, sharing)
    common = {Sharing.NONE: 0, Sharing.BEGINNING: 1024, Sharing.WHOLE: 2000 // 512 * 512}[sharing]
    assert len([1 for x, y in zip(a, b, strict=False) if x == y]) == common // 16
    assert list(b[: len(short)]) == list(short)
    assert len(short) == (0 if sharing is Sharing.NONE else 512 // 16)
    assert not set(a) & set(other)


def test_a_chain_equals_another_only_where_both_are_one():
    assert list(chain(3, 4)) == list(chain(3, 9))[:4]
    assert not set(chain(3, 1000)) & set(chain(4, 1000))


def test_columns_must_agree():
    with pytest.raises(ValueError, match="tenants"):
        drawn(5, tenants=("a",))
    with pytest.raises(ValueError, match="ascend"):
        Trace("x", np.array([2.0, 1.0]), Lengths(np.array([1, 1]), np.array([1, 1])))


def test_the_real_traces(request):
    """What the documentation of ``Sharing`` says of them, counted again."""
    path = request.config.rootpath.parent / "shared" / "data" / "traces.parquet"
    if not path.exists():
        pytest.skip("needs ../shared/data")
    assert len(read_trace(path, "azure2023_conv")) == 19_366
    found = {}
    for name in ("mooncake_conversation", "mooncake_synthetic"):
        trace = read_trace(path, name)
        blocks = -(-trace.lengths.prompt_tokens // 512)
        for sharing in (Sharing.WHOLE, Sharing.BEGINNING):
            chains = shared_chains(
                trace.prefixes, trace.lengths.prompt_tokens.tolist(), 512, sharing
            )
            known: dict[int, int] = {}
            hits = 0
            for each in chains:
                if each:
                    longest = known.get(each[0], 0)
                    hits += min(longest, len(each))
                    known[each[0]] = max(longest, len(each))
            found[name, sharing] = hits / blocks.sum()
    assert found["mooncake_conversation", Sharing.WHOLE] == pytest.approx(0.39, abs=0.005)
    assert found["mooncake_synthetic", Sharing.WHOLE] == pytest.approx(0.64, abs=0.005)
    assert found["mooncake_conversation", Sharing.BEGINNING] == pytest.approx(0.03, abs=0.005)
    assert found["mooncake_synthetic", Sharing.BEGINNING] == pytest.approx(0.03, abs=0.005)
