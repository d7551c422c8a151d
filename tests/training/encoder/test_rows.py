"""Examples become rows: draws together, other models' lengths on one scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from ranker.encoder.text import EncoderText
from ranker.types import FinishReason
from training.encoder.batches import epoch_batches, inputs, share, sorted_batches
from training.encoder.rows import Rows, aligned, make_rows
from training.sources import Example, Lengths


def example(prompt: str, tokens: int, model: str = "a", reason=FinishReason.STOP) -> Example:
    return Example(prompt, tokens, reason, model, f"{prompt}/{tokens}", "train")


@pytest.fixture(scope="module")
def text() -> EncoderText:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "x": 1, "y": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return EncoderText(tokenizer, length=8)


def test_draws_of_one_prompt_by_one_model_are_one_row(text):
    cut = example("x", 9, reason=FinishReason.LENGTH)
    rows = make_rows([[example("x", 5), example("y x", 7), cut, example("x", 3, "b")]], [1.0], text)
    assert rows.ids == [[1], [2, 1], [1]]
    assert rows.tokens.tolist() == [[5.0, 9.0], [7.0, 0.0], [3.0, 0.0]]
    assert rows.censored.tolist() == [[False, True], [False, False], [False, False]]
    assert rows.mask.tolist() == [[True, True], [True, False], [True, False]]


def test_served_models_are_numbered_and_others_are_not(text):
    own = [example("x", 5, "a"), example("x", 6, "b")]
    rows = make_rows([own, [example("y", 1, "c")]], [1.0, 0.25], text, models=("a", "b"))
    assert rows.models.tolist() == [1, 2, 0]
    assert rows.weights.tolist() == [1.0, 1.0, 0.25]


def test_other_lengths_move_to_where_their_rank_lies():
    own = Lengths(np.arange(1.0, 101.0), np.zeros(100, bool))
    other = Lengths(np.arange(1.0, 101.0)[::-1] ** 3, np.zeros(100, bool))
    assert np.abs(aligned(other, own) - np.arange(1.0, 101.0)[::-1]).max() <= 1.0
    assert aligned(Lengths(np.empty(0), np.empty(0, bool)), own).shape == (0,)


def test_a_bound_moves_to_the_share_that_is_known_to_be_shorter():
    own = Lengths(np.arange(1.0, 101.0), np.zeros(100, bool))
    # Half of the rows end at 1, 2, ... 50; the others were cut off at 50.
    tokens = np.r_[np.arange(1.0, 51.0), np.full(50, 50.0)]
    moved = aligned(Lengths(tokens, np.arange(100) >= 50), own)
    assert moved[50:].tolist() == [50.0] * 50
    assert (np.diff(moved[:50]) >= 0.0).all()


def test_the_digest_follows_every_column(text):
    parts = [[example("x", 5), example("y", 7)]]
    digest = make_rows(parts, [1.0], text).digest()
    assert digest == make_rows(parts, [1.0], text).digest()
    assert digest != make_rows(parts, [0.5], text).digest()
    assert digest != make_rows([[example("x", 5), example("y", 8)]], [1.0], text).digest()
    assert digest != make_rows([[example("x", 5), example("x y", 7)]], [1.0], text).digest()


def test_an_epoch_shows_every_row_once_and_is_a_function_of_seed_and_number():
    sizes = np.random.default_rng(0).integers(3, 100, 1000)
    batches = epoch_batches(sizes, 32, seed=1, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    again = epoch_batches(sizes, 32, seed=1, epoch=0)
    assert all((a == b).all() for a, b in zip(batches, again, strict=True))
    assert (
        np.concatenate(epoch_batches(sizes, 32, 1, 1)).tolist() != np.concatenate(batches).tolist()
    )
    padded = sum(len(b) * sizes[b].max() for b in batches)
    assert padded < 1.1 * sizes.sum()


def test_processes_share_a_batch_and_fill_up_what_is_missing():
    index = np.array([5, 6, 7, 8, 9])
    parts = [share(index, process, 3) for process in range(3)]
    assert [part.tolist() for part in parts] == [[5, 8], [6, 9], [7, -1]]


def test_reading_is_in_order_of_size():
    sizes = np.array([9, 2, 5, 7])
    assert [batch.tolist() for batch in sorted_batches(sizes, 3)] == [[1, 2, 3], [0]]


def test_a_row_weighs_as_its_heaviest_draw(text):
    own = [replace(example("x", 5), weight=w) for w in (0.25, 0.5)]
    own.append(replace(example("y", 9), weight=0.125))
    rows = make_rows([own, [example("y", 1, "c")]], [1.0, 0.5], text)
    assert rows.weights.tolist() == [0.5, 0.125, 0.5]


def test_batches_come_in_few_lengths_and_never_longer_than_the_longest_prompt():
    rows = Rows(
        [[1] * size for size in (3, 9, 16, 17, 21)],
        *(np.zeros((5, 1), kind) for kind in (float, bool, bool)),
        np.ones(5),
        np.zeros(5, np.int64),
    )
    device = torch.device("cpu")
    for index, tokens in (([0], 8), ([0, 1], 16), ([2], 16), ([3, 0], 21), ([4], 21)):
        found = inputs(rows, np.array(index), 7, device)
        assert found.ids.shape == (len(index), tokens)
        assert found.mask.sum(dim=1).tolist() == [len(rows.ids[i]) for i in index]
        assert torch.all((found.ids == 7) == (found.mask == 0))
