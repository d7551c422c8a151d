"""Recent traffic as data: what is held out, what counts how much, what is said to be missing."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.outcomes import OutcomeStore
from drift.prompts import Prompt, PromptStore, RetentionConfig
from ranker.types import FinishReason, Outcome
from training.retrain import retraining
from training.sources import Data, Example, Origin
from training.sources.lineage import Lineage
from training.sources.outcomes import read_outcomes
from training.sources.recent import RecencyConfig, Recent, arrival_of, read_recent
from training.split import SPLITS, plain

START = 1_700_000_000.0
SMALL = RecencyConfig(least_rows=10)


@dataclass
class Home:
    outcomes: OutcomeStore
    prompts: PromptStore

    def add(self, name, text="why?", *, at=0.0, took=1.0, tokens=7, model="m", reason="stop",
            keep=True, tenant=""):  # fmt: skip
        arrival = START + at
        outcome = Outcome(name, model, tokens, FinishReason(reason), arrival, arrival + took, 5,
                          tenant=tenant, lane="chat")  # fmt: skip
        self.outcomes.store([outcome])
        if keep:
            self.prompts.put([Prompt(name, model, text, arrival)], arrival)

    def read(self, model="", config=SMALL) -> Recent:
        return read_recent(self.outcomes.path, self.prompts.path, model, config)


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "chez é"
    with (
        closing(OutcomeStore(folder / "outcomes.db")) as outcomes,
        closing(PromptStore(folder / "prompts.db", RetentionConfig(30.0))) as prompts,
    ):
        yield Home(outcomes, prompts)


def recent(rows, **changes) -> Recent:
    """Of ``(arrival, prompt)``, in any order."""
    examples = tuple(
        Example(text, 5 + i, FinishReason.STOP, "m", str(i), "test", origin=Origin(at))
        for i, (at, text) in enumerate(sorted(rows, key=lambda row: row[0]))
    )
    values = {"store": "o.db", "prompts": "p.db", "served_model": "m", "rows": examples,
              "outcomes": len(rows), "joined": len(rows), "unsettled": 0}  # fmt: skip
    from pathlib import Path

    values |= {name: Path(values[name]) for name in ("store", "prompts")}
    return Recent(**{**values, **changes})


def test_outcomes_meet_retained_prompts_whoever_was_scored_or_cut_off(home):
    for i in range(20):
        home.add(f"r{i}", f"half a pair \ud800 {i}", at=19 - i, tenant="acme",
                 reason="length" if i % 5 == 0 else "stop", keep=i != 3)  # fmt: skip
    found = home.read()
    assert (found.served_model, found.outcomes, found.joined) == ("m", 20, 19)
    assert [e.id for e in found.rows] == [f"r{i}" for i in range(19, -1, -1) if i != 3]
    assert found.unsettled == 0
    last = found.rows[-1]
    assert last.origin == Origin(START + 19.0, "acme", "chat")
    assert last.prompt == "half a pair \ud800 0"
    assert {e.id for e in found.rows if e.finish_reason.censored} == {"r0", "r5", "r10", "r15"}
    assert "20 outcomes of m, of which 19 have a prompt" in found.found


def test_answers_that_are_still_missing_do_not_make_the_newest_traffic_look_short(home):
    for i in range(200):
        home.add(f"r{i}", f"p {i}", at=i, took=10.0 if i % 3 == 0 and i < 189 else 0.5)
    found = home.read()
    # One of 10 s that came at 190 could not have ended by 199.5.
    assert arrival_of(found.rows[-1]) == START + 189.0
    assert found.unsettled == 10
    assert home.read().after(START + 180.0) == list(found.rows[-9:])


def test_a_burst_that_took_longer_than_it_came_in_keeps_nine_tenths(home):
    for i in range(30):
        home.add(f"r{i}", f"p {i}", at=i, took=100.0 if i in (0, 2, 4, 6) else 1.0)
    assert (len(home.read().rows), home.read().unsettled) == (27, 3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), min_size=12, max_size=80),
    st.floats(0.05, 0.6),
    st.integers(1, 40),
)
def test_the_newest_are_held_out_and_nothing_is_on_two_sides(rows, share, half_life):
    config = RecencyConfig(held_out=share, half_life=half_life, least_rows=1)
    given_rows = [(float(at), f"Prompt  {text}" if at % 2 else f"prompt {text}")
                  for at, text in rows]  # fmt: skip
    try:
        data, lineage = recent(given_rows).data(config)
    except ValueError as error:
        if "none is left to train on" not in str(error):
            raise
        return
    sides = {split: data.split(split) for split in SPLITS}
    train, validation, test = sides.values()
    texts = [{plain(e.prompt) for e in side} for side in sides.values()]
    assert sum(map(len, texts)) == len(set().union(*texts))
    arrivals = [[arrival_of(e) for e in side] for side in sides.values()]
    assert max(arrivals[0]) < min(arrivals[1] + arrivals[2])
    assert not arrivals[1] or max(arrivals[1]) < min(arrivals[2], default=math.inf)
    # The newest stays, whatever came before it; of a prompt on two sides the later one does.
    newest = max(at for at, _ in given_rows)
    assert max(arrivals[2]) == newest == lineage.seen_until
    assert len(data.examples) + data.leaks + sum(data.skipped.values()) == len(rows)
    assert (lineage.trained_from, lineage.trained_until) == (min(arrivals[0]), max(arrivals[0]))
    assert lineage.trained_until <= lineage.calibrated_until <= lineage.seen_until
    weights = [e.weight for e in train]
    assert weights[-1] == 1.0
    assert weights == sorted(weights)
    if len(weights) > half_life:
        assert weights[-1 - half_life] == pytest.approx(0.5)
    assert {e.weight for e in validation + test} == {1.0}


def test_of_much_traffic_no_more_than_a_bound_is_held_out():
    """After a shift, the newest rows are the ones to learn from."""
    data, lineage = recent([(i, f"p {i}") for i in range(3000)]).data(RecencyConfig())
    assert [len(data.split(s)) for s in SPLITS] == [2600, 200, 200]
    assert (lineage.trained_until, lineage.calibrated_until) == (2599.0, 2799.0)


def test_rows_older_than_ten_half_lives_are_left_out():
    data, lineage = recent([(i, f"p {i}") for i in range(100)]).data(
        RecencyConfig(half_life=2.0, least_rows=10)
    )
    assert data.skipped == {"older than 10 half-lives": 60}
    assert lineage.rows == len(data.split("train")) == 20
    assert data.split("train")[0].weight == pytest.approx(0.5**9.5)


def test_a_lineage_is_read_back_as_it_was_written():
    _, lineage = recent([(START + i / 7, f"p {i}") for i in range(50)]).data(SMALL)
    assert Lineage.of({"served_model": "x", **lineage.tags()}) == lineage
    assert Lineage.of({"served_model": "x", "data": "log.jsonl"}) is None


def test_former_rows_help_unless_they_are_held_out():
    rows = recent([(i, f"p {i}") for i in range(50)])
    former = Data("former", "made up", tuple(
        Example(text, 9, FinishReason.STOP, "other", str(i), split)
        for i, (text, split) in enumerate(
            [("P  49", "train"), ("p 3", "train"), ("q", "train"), ("r", "test")])
    ))  # fmt: skip
    plan = retraining(rows, SMALL, name="n", former=[former], reason="w" * 2000)
    assert [(e.prompt, e.weight) for e in plan.job.helpers] == [("p 3", 0.25), ("q", 0.25)]
    assert plan.job.name == "n"
    assert plan.tags()["reason"] == "w" * 1000
    assert retraining(rows, SMALL).job.name == "length-ranker-m"


def test_prompts_of_ones_own_log_do_as_well(home, tmp_path):
    for i in range(20):
        home.add(f"r{i}", at=i, keep=False)
    log = tmp_path / "own.jsonl"
    log.write_text("\n".join(
        json.dumps({"request_id": f"r{i}", "prompt": f"p {i}", "conversation": f"talk {i // 3}"})
        for i in range(20)
    ))  # fmt: skip
    found = read_recent(home.outcomes.path, log, "m")
    assert len(found.rows) == 20
    # A conversation that goes on into what is held out is on that side alone.
    data, _ = found.data(SMALL)
    assert [e.id for e in data.split("train")] == [f"r{i}" for i in range(15)]
    assert data.leaks == 1
    with pytest.raises(ValueError, match="none is left"):
        replace(found, rows=tuple(replace(e, conversation="one") for e in found.rows)).data(SMALL)


# -- what is missing, and what to do about it ---------------------------------------------------


def test_no_outcomes_at_all(home, tmp_path):
    with pytest.raises(ValueError, match="nothing was reported yet"):
        read_recent(tmp_path / "none.db", home.prompts.path)
    with pytest.raises(ValueError, match="holds no outcomes yet"):
        home.read()


def test_retention_that_was_off(home):
    home.add("a", keep=False)
    with pytest.raises(ValueError, match="retain-prompts") as caught:
        read_recent(home.outcomes.path, home.prompts.path.with_name("nowhere.db"))
    assert "outcomes hold none" in str(caught.value)


def test_retention_that_has_seen_nothing_yet(home):
    home.add("a", keep=False)
    with pytest.raises(ValueError, match=r"0 prompts in .*retention has seen no traffic"):
        home.read()


def test_ids_that_do_not_meet(home):
    home.add("a", keep=False)
    home.prompts.put([Prompt("other", "m", "secret", START)], START)
    with pytest.raises(ValueError, match=r"1 outcomes of m, 1 prompts .*same request id") as caught:
        home.read()
    assert "secret" not in str(caught.value)


def test_too_few_says_how_many_of_how_many(home):
    for i in range(12):
        home.add(f"r{i}", f"secret {i}", at=i, keep=i < 6)
    with pytest.raises(ValueError, match="12 outcomes of m, of which 6 have a prompt") as caught:
        home.read().data(SMALL)
    assert "at least 10" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_one_prompt_again_and_again_leaves_nothing_to_train_on(home):
    for i in range(40):
        home.add(f"r{i}", "Ping", at=i)
    with pytest.raises(ValueError, match="of them repeat a prompt of the newest 8, "):
        home.read().data(SMALL)


def test_several_models_are_named_with_their_numbers(home):
    for i in range(3):
        home.add(f"m{i}", at=i)
        home.add(f"n{i}", at=i, model="n", keep=i == 0)
    with pytest.raises(ValueError, match=r"2 models \(m \(3\), n \(3\)\).*--served-model"):
        home.read()
    assert (home.read("n").served_model, home.read("n").joined) == ("n", 1)
    with pytest.raises(ValueError, match="no outcomes of model o; there are: m"):
        home.read("o")


def test_the_source_by_hash_takes_retained_prompts_too(home):
    for i in range(30):
        home.add(f"r{i}", f"p {i}" if i else "  ", at=i)
    data = read_outcomes(home.outcomes.path, home.prompts.path)
    assert data.skipped == {"outcomes whose request id has no prompt": 1}  # one of blanks alone
    assert {e.split for e in data.examples} == {"train", "validation", "test"}
    with pytest.raises(ValueError, match=r"not a store of prompts \(no such table"):
        read_outcomes(home.outcomes.path, home.outcomes.path)


@pytest.mark.parametrize(
    "wrong",
    [{"half_life": 0.5}, {"half_life": math.inf}, {"held_out": 1.0}, {"least_rows": 0},
     {"half_life": math.nan}, {"most_held_out": 1}],
)  # fmt: skip
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match=f"recency.{next(iter(wrong))}"):
        RecencyConfig(**wrong)
