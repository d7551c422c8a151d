"""Trees that LightGBM would believe: found before it reads them."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from ranker.artifact import trees
from ranker.features import FEATURES

COLUMNS = len(FEATURES) + 1


@pytest.fixture(scope="session")
def text(ranker):
    return trees.text_of(ranker.model.trees)


def test_trees_come_back_the_same(ranker, text):
    found = trees.booster(text, COLUMNS)
    rows = np.random.default_rng(0).normal(size=(50, COLUMNS)) * 5
    assert np.array_equal(found.predict(rows), ranker.model.trees.predict(rows))
    assert trees.text_of(found) == text


def test_a_tree_of_one_leaf_is_one():
    import lightgbm

    rows = np.random.default_rng(0).normal(size=(100, 2))
    flat = lightgbm.train({"verbose": -1}, lightgbm.Dataset(rows, np.ones(100)), 3)
    found = trees.booster(trees.text_of(flat), 2)
    assert found.predict(rows) == pytest.approx(np.ones(100))


def first(name, change):
    """Change a word of the first line with this name, keeping its length in characters."""

    def changed(text):
        head, start, rest = text.partition(f"\n{name}=")
        line, end, after = rest.partition("\n")
        words = line.split(" ")
        room = len(line)
        words[0] = change
        grown = " ".join(words)
        sizes = f"tree_sizes={text.partition('tree_sizes=')[2].split(' ')[0]}"
        number = int(sizes.partition("=")[2]) + len(grown) - room
        if name not in ("version", "num_class", "objective", "max_feature_idx", "tree_sizes"):
            head = head.replace(sizes, f"tree_sizes={number}", 1)
        return f"{head}{start}{grown}{end}{after}"

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: "", "no LightGBM model"),
        (lambda t: t.replace("tree\n", "forest\n", 1), "no LightGBM model"),
        (first("version", "v3"), "version must be v4"),
        (first("num_class", "3"), "num_class must be 1"),
        (first("objective", ""), "objective"),
        (first("max_feature_idx", "9999"), "other columns"),
        (first("tree_sizes", "99999999"), "tree 0"),
        (first("tree_sizes", "-5"), "not where tree_sizes says"),
        (first("tree_sizes", "much"), "no number"),
        (first("split_feature", "9999"), "not among the"),
        (first("split_feature", "-1"), "not among the"),
        (first("split_feature", "99999999999999999999"), "no number"),
        (first("split_feature", "0_1"), "no number"),
        (first("feature_names", "Column_0\rtree_sizes=9"), "does not write"),
        (lambda t: t.replace("num_leaves=", "num_leaves=\0", 1), "does not write"),
        (first("leaf_value", "\N{ARABIC-INDIC DIGIT THREE}"), "does not write"),
        (first("left_child", "0"), "make no tree"),
        (first("left_child", "2147483647"), "make no tree"),
        (first("right_child", "-1"), "make no tree"),
        (first("threshold", "nan"), "not finite"),
        (first("leaf_value", "inf"), "not finite"),
        (first("leaf_value", "1 2"), "must hold"),
        (first("decision_type", "1"), "decision_type"),
        (first("num_leaves", "2147483647"), "num_leaves must lie"),
        (first("num_leaves", "0"), "num_leaves must lie"),
        (first("num_cat", "1"), "categories"),
        (first("is_linear", "1"), "categories"),
        (lambda t: t + "[machines: example]\n", "damaged"),
        (lambda t: t.replace("shrinkage=", "shrunkage=", 1), "shrunkage"),
        (lambda t: t[: len(t) // 2], "tree"),
        (lambda t: t.removesuffix("end of trees\n"), "damaged"),
        (lambda t: t.replace("Tree=1\n", "Tree=2\n", 1), "not where tree_sizes says"),
    ],
)
def test_what_lightgbm_would_trust_is_refused(text, change, message):
    assert change(text) != text
    with pytest.raises(ValueError, match=message):
        trees.check(change(text), COLUMNS)


FUZZ = """
import sys, numpy as np
from ranker.artifact import trees
columns, *texts = sys.stdin.buffer.read().decode().split("\\0")
rows = np.random.default_rng(0).normal(size=(20, int(columns)))
taken = 0
for text in texts:
    try:
        found = trees.booster(text, int(columns))
    except ValueError:
        continue
    taken += len(found.predict(rows, num_threads=1)) == 20
print(taken)
"""


def test_what_is_let_through_does_not_bring_the_process_down(text):
    """Random damage, in a process of its own, which has to come back."""
    rng = random.Random(0)
    short = text[: text.index("\nTree=3\n") + 1] + "end of trees\n"
    sizes = short.partition("tree_sizes=")[2].partition("\n")[0]
    short = short.replace(sizes, " ".join(sizes.split(" ")[:3]), 1)
    trees.check(short, COLUMNS)
    odd = ("-1", "0", "1", "99", "2147483647", "-2147483648", "nan", "1e308", "", "x")
    damaged = [short]
    for _ in range(400):
        lines = short.split("\n")
        row = rng.randrange(len(lines))
        name, equals, line = lines[row].partition("=")
        words = line.split(" ")
        words[rng.randrange(len(words))] = rng.choice(odd)
        place = rng.randrange(len(short))
        damaged.append(
            rng.choice(
                (
                    "\n".join([*lines[:row], *lines[row + 1 :]]),
                    "\n".join([*lines[:row], lines[rng.randrange(len(lines))], *lines[row:]]),
                    "\n".join([*lines[:row], name + equals + " ".join(words), *lines[row + 1 :]]),
                    short[:place],
                    short[:place] + rng.choice("0123456789-= .en[]\n") + short[place + 1 :],
                )
            )
        )
    run = subprocess.run(
        [sys.executable, "-c", FUZZ],
        input="\0".join((str(COLUMNS), *damaged)).encode(),
        capture_output=True,
        check=True,
    )
    assert 1 <= int(run.stdout) < len(damaged)
