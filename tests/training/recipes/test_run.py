from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau

from training.recipes.benchmark import Benchmark, Trial, asked, draws
from training.recipes.buckets import Buckets
from training.recipes.catalogue import RECIPES
from training.recipes.encoder import EncoderRecipe
from training.recipes.prompt_length import PromptLength
from training.recipes.run import entries, fitted, key, known, on_scales
from training.recipes.store import Fitted, Store
from training.sources import Example, Lengths

FINETUNED = [
    r for r in RECIPES if isinstance(r, EncoderRecipe) and not r.later and "buckets" not in r.name
]
# Lengths of the toy end at 450: buckets as wide as published would have nothing to tell apart.
FINETUNED.append(EncoderRecipe("buckets", "", "", lambda tokens: Buckets(100, most=500)))


def test_names_are_unique_and_every_recipe_says_where_it_is_from() -> None:
    names = [r.name for r in RECIPES]
    assert len(set(names)) == len(names)
    assert all(r.source and r.differs for r in RECIPES)


@pytest.mark.parametrize("recipe", FINETUNED, ids=[r.name for r in FINETUNED])
def test_every_objective_teaches_the_encoder_the_order(recipe, toy, setup, tmp_path) -> None:
    found = fitted(recipe, toy, setup, Store(tmp_path))
    (entry,) = entries([(toy, {recipe.name: found})], [recipe.name], resamples=20)
    assert entry.standing.short_long > 0.9
    assert entry.milliseconds > 0
    assert entry.minutes > 0


def test_what_is_kept_is_not_learnt_again(toy, setup, tmp_path) -> None:
    class Counting(PromptLength):
        calls = 0

        def fit(self, benchmark, setup):
            type(self).calls += 1
            return super().fit(benchmark, setup)

    store = Store(tmp_path)
    first = fitted(Counting(), toy, setup, store)
    again = fitted(Counting(), toy, setup, Store(tmp_path))
    assert Counting.calls == 1
    assert first.minutes == again.minutes
    assert all(np.array_equal(first.scores[k], again.scores[k]) for k in first.scores)
    other = replace(toy, train=toy.train[1:])
    assert key(Counting(), toy, setup) != key(Counting(), other, setup)
    # Another trial of the same training rows is scored, even though the key is the same.
    more = replace(toy, trials=(*toy.trials, Trial.whole("half", toy.trials[0].examples[:20])))
    assert key(Counting(), toy, setup) == key(Counting(), more, setup)
    assert len(fitted(Counting(), more, setup, store).scores) == 3
    assert Counting.calls == 2


def test_another_draw_of_the_answers_needs_no_other_score(toy, setup, tmp_path) -> None:
    rows = toy.trials[0].examples
    longer = tuple(replace(e, output_tokens=e.output_tokens + 7, id=f"{e.id}/1") for e in rows)
    both = Trial("both", (*rows, *longer), (np.arange(len(rows)), len(rows) + np.arange(len(rows))))
    found = fitted(PromptLength(), toy, setup, Store(tmp_path))
    more = replace(toy, trials=(both,))
    assert known(PromptLength(), more, setup, Store(tmp_path)) is not None
    (once,) = entries([(toy, {"x": found})], ["x"], resamples=20)
    (twice,) = entries([(more, {"x": found})], ["x"], resamples=20)
    assert twice.rows == 2 * once.rows
    assert twice.standing.tau == pytest.approx(once.standing.tau, abs=0.02)


def test_what_helps_our_rankers_knows_nothing_that_is_held_out(toy) -> None:
    tried, held = toy.trials[0].examples[0], toy.validation[0]
    asked = [replace(e, split="train", id=f"{e.id}/other", model="other") for e in (tried, held)]
    turn = replace(toy.train[0], prompt="a later turn", conversation="talk", id="later")
    trial = Trial.whole("talk", [replace(e, conversation="talk") for e in toy.trials[0].examples])
    helped = replace(toy, auxiliary=(*asked, toy.train[0]), later=(*asked, turn))
    assert helped.auxiliary == toy.train[:1]
    assert helped.later == (turn,)
    assert replace(helped, trials=(trial,)).later == ()


def test_no_word_of_a_prompt_is_kept(toy, setup, tmp_path) -> None:
    fitted(PromptLength(), toy, setup, Store(tmp_path))
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert not any(e.prompt in text for e in toy.train)
    assert "essay" not in text


def test_a_broken_file_is_as_good_as_none(tmp_path) -> None:
    store = Store(tmp_path)
    store.put("a", Fitted("r", 1.0, 2.0, {"x": np.array([1.0, 2.0])}))
    found = store.get("a")
    assert found is not None
    assert found.scores["x"].tolist() == [1.0, 2.0]
    (tmp_path / "a.json").write_text('{"recipe": "r", "minutes"')
    assert store.get("a") is None
    assert store.get("b") is None


def example(prompt: str, tokens: int, model: str = "m", split: str = "test") -> Example:
    from ranker.types import FinishReason

    return Example(prompt, tokens, FinishReason.STOP, model, f"{prompt}/{tokens}/{model}", split)


def test_draws_are_groups_and_their_agreement_the_ceiling() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 200, (30, 2))
    rows = [example(f"p{i}", int(t)) for i, pair in enumerate(tokens) for t in pair]
    groups, ceiling = draws(rows)
    assert [len(g) for g in groups] == [30, 30]
    assert [rows[i].output_tokens for i in groups[1]] == tokens[:, 1].tolist()
    assert ceiling == pytest.approx(kendalltau(*tokens.T).statistic, abs=1e-6)
    once, none = draws([example(f"p{i}", i) for i in range(5)])
    assert len(once) == 1
    assert np.isnan(none)


def test_scores_of_models_on_one_scale_follow_expected_length() -> None:
    rng = np.random.default_rng(1)
    need = rng.uniform(0, 1, 80)
    rows = [
        example(f"p{i}", int(size * np.exp(n)), model)
        for i, n in enumerate(need)
        for model, size in (("brief", 20), ("wordy", 400))
    ]
    scores = np.repeat(need, 2)
    trial = Trial("t", tuple(rows), (np.arange(len(rows)),), scaled=True)
    moved = on_scales(scores, trial, scores, rows)
    wordy = np.array([e.model == "wordy" for e in rows])
    assert moved[wordy].min() > moved[~wordy].max()
    assert np.array_equal(np.argsort(moved[wordy]), np.argsort(scores[wordy]))
    tokens = Lengths.of(rows).tokens
    assert kendalltau(moved, tokens).statistic > 0.9 > kendalltau(scores, tokens).statistic


def test_entries_name_share_of_ceiling_and_the_best_rival(toy, setup, tmp_path) -> None:
    trial = replace(toy.trials[0], ceiling=0.5)
    bench = replace(toy, trials=(trial,))
    lengths = Lengths.of(trial.examples).tokens
    at = asked(trial.examples)
    results = {
        "ours": Fitted("ours", 0.0, 0.0, {at: lengths}),
        "rival": Fitted("rival", 0.0, 0.0, {at: -lengths}),
    }
    ours, rival = entries([(bench, results)], ["rival"], resamples=50)
    assert ours.share == pytest.approx(ours.standing.tau / 0.5)
    assert ours.standing.gain == pytest.approx(ours.standing.tau - rival.standing.tau)
    assert np.isnan(rival.standing.gain)
    assert isinstance(bench, Benchmark)


def test_rows_of_folds_are_compared_within_a_fold_alone() -> None:
    def fold(name: str, shift: float) -> tuple[Benchmark, dict[str, Fitted]]:
        rows = [example(f"{name}{i}", i + 1) for i in range(30)]
        trial = Trial.whole("t", rows)
        at = asked(trial.examples)
        scores = shift + np.arange(30.0)
        return Benchmark(name, (), (), (trial,)), {
            "ours": Fitted("ours", 2.0 + shift, 0.0, {at: scores}),
            "rival": Fitted("rival", 0.0, 0.0, {at: -scores}),
        }

    first, second = fold("a", 0.0), fold("b", 1000.0)
    ours, rival = entries([first, second], ["rival"], resamples=20)
    assert ours.rows == 60
    assert ours.standing.tau == pytest.approx(1.0)  # in one queue the two scales would cost
    assert rival.standing.tau == pytest.approx(-1.0)
    assert ours.minutes == pytest.approx(502.0)
    # Who is missing on one of the folds has no row.
    del second[1]["rival"]
    assert [e.recipe for e in entries([first, second], ["rival"], resamples=20)] == ["ours"]
    assert entries([(first[0], {})], ["rival"]) == []
