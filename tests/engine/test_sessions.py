import json

import numpy as np
import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.sessions import Sessions, read_sessions
from engine.simulator import simulate
from engine.workload import Lengths

TURNS = [("x", 0, 10, 20), ("y", 0, 100, 50), ("x", 1, 35, 8), ("x", 2, 50, 0), ("x", 3, 60, 4)]


def write(folder, turns=TURNS):
    path = folder / "sessions.jsonl"
    names = ("session", "turn", "context_tokens", "output_tokens")
    rows = [dict(zip(names, turn, strict=True)) for turn in turns]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def talk():
    session = np.array([0, 0, 0, 1, 1])
    return Sessions(
        session, Lengths(np.array([160, 400, 700, 96, 300]), np.array([150, 100, 60, 64, 40]))
    )


def test_turns_are_read_session_by_session(tmp_path):
    found = read_sessions(write(tmp_path))
    assert found.session.tolist() == [0, 0, 0, 1]
    assert found.lengths.prompt_tokens.tolist() == [10, 35, 60, 100]
    assert found.lengths.output_tokens.tolist() == [20, 8, 4, 50]
    assert (len(found), found.count) == (4, 2)


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([("x", 0, 10, 20), ("x", 1, 29, 5)], "cover"),
        ([("x", 0, 10, 0)], "no turn"),
        ([(None, 0, 10, 5)], "lacks session"),
        ([("x", 0, 1.5, 5)], "context_tokens must be a whole number"),
    ],
)
def test_says_what_is_wrong(tmp_path, turns, message):
    with pytest.raises(ValueError, match=message):
        read_sessions(write(tmp_path, turns))


def test_hashes_follow_the_conversation():
    made = {r.id: r for r in talk().requests(np.arange(5.0))}
    first, second, third = (made[f"0-{turn}"] for turn in range(3))
    assert len(first.block_hashes) == (160 + 150) // 16
    assert list(second.block_hashes[: len(first.block_hashes)]) == list(first.block_hashes)
    assert list(third.block_hashes[: len(second.block_hashes)]) == list(second.block_hashes)
    assert not set(third.block_hashes) & set(made["1-1"].block_hashes)


def test_a_system_prompt_is_common_to_all():
    made = {r.id: r for r in talk().requests(np.arange(5.0), shared_tokens=100)}
    one, other = made["0-2"].block_hashes, made["1-1"].block_hashes
    assert list(one[:6]) == list(other[:6])  # 96 of 100 tokens are whole blocks
    assert not set(one[6:]) & set(other)
    assert len(one) == (700 + 60) // 16
    assert list(made["1-0"].block_hashes[:6]) == list(one[:6])


def test_the_cache_finds_what_the_turn_before_said():
    config = SchedulerConfig(4, 2048, 16, 1000)
    cost = CostModel(0.03, 0.002, 0.001)
    result = simulate(talk().requests(np.arange(5.0) * 100), config, make("fcfs"), cost)
    # Of each later turn: all but the last, unfinished block of what came before.
    expected = (310 // 16 + 500 // 16 + 160 // 16) * 16
    assert result.stats.memory.prefix_hit_tokens == pytest.approx(expected, abs=3 * 16)
    assert result.stats.memory.prefix_hit_tokens <= expected


def test_turns_come_after_the_answer_and_a_thought():
    sessions = talk()
    starts = np.array([5.0, 1.0])
    arrivals = sessions.arrivals(starts, think=0.0, pace=0.1, rng=np.random.default_rng(0))
    assert arrivals.tolist() == pytest.approx([5.0, 20.0, 30.0, 1.0, 7.4])
    many = talk().draw(4000, np.random.default_rng(1))
    arrivals = many.arrivals(np.zeros(4000), think=2.0, pace=0.0, rng=np.random.default_rng(2))
    later = np.diff(many.session) == 0
    assert np.diff(arrivals)[later].mean() == pytest.approx(2.0, rel=0.05)
    assert [r.arrival for r in many.requests(arrivals)] == sorted(arrivals)
    with pytest.raises(ValueError, match="starts"):
        sessions.arrivals(np.zeros(3), think=0.0, pace=0.1, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="think"):
        sessions.arrivals(starts, think=-1.0, pace=0.1, rng=np.random.default_rng(0))


def test_drawing_keeps_sessions_whole():
    many = talk().draw(50, np.random.default_rng(1))
    assert many.count == 50
    for number in range(50):
        prompts = many.lengths.prompt_tokens[many.session == number].tolist()
        assert prompts in ([160, 400, 700], [96, 300])


def test_what_is_too_long_is_cut_at_the_end():
    short = talk().fitting(500)
    assert short.lengths.prompt_tokens.tolist() == [160, 400, 96, 300]
    assert short.session.tolist() == [0, 0, 1, 1]
    only = talk().fitting(200)
    assert (only.session.tolist(), only.lengths.prompt_tokens.tolist()) == ([0], [96])
    with pytest.raises(ValueError, match="no turn"):
        talk().fitting(10)


def test_the_real_sessions(request):
    path = request.config.rootpath.parent / "shared" / "data" / "sharegpt_session_lengths.parquet"
    if not path.exists():
        pytest.skip("needs ../shared/data")
    sessions = read_sessions(path)
    assert (len(sessions), sessions.count) == (61_225, 17_391)
