from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranker.types import FinishReason
from training.label.answer import Label
from training.label.journal import Journal, journal_of
from training.label.sampling import Sampling

CALM = Sampling("toy", temperature=0.2)
LABELS = [
    Label(f"k{i}", f"id {i}", "é", "test", i % 3, i, 4, 10 * i, FinishReason.STOP) for i in range(5)
]


@pytest.fixture
def path(tmp_path):
    path = journal_of(tmp_path / "new folder" / "längen.parquet")
    with Journal(path, CALM) as journal:
        for label in LABELS:
            journal.append(label)
    return path


def test_what_was_written_is_there_when_it_goes_on(path):
    with Journal(path, CALM) as journal:
        assert journal.labels == LABELS
        journal.append(LABELS[0])
    with Journal(path, CALM) as journal:
        assert journal.labels == [*LABELS, LABELS[0]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_killed_at_any_byte_it_goes_on_with_whole_lines(path, data):
    with Journal(path, CALM):
        pass
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    torn = path.with_name("torn.journal")
    torn.write_bytes(content[:cut])
    whole = max(0, content[:cut].count(b"\n") - 1)
    with Journal(torn, CALM) as journal:
        assert journal.labels == LABELS[:whole]
        journal.append(LABELS[-1])
    with Journal(torn, CALM) as journal:
        assert journal.labels == [*LABELS[:whole], LABELS[-1]]


def test_other_settings_are_refused_by_name(path):
    with pytest.raises(ValueError, match=r"temperature was 0\.2 and is 0\.9 now; .*--out"):
        Journal(path, Sampling("toy", temperature=0.9))
    with pytest.raises(ValueError, match="model was 'toy' and is 'other' now; seed was 0 and is 1"):
        Journal(path, Sampling("other", temperature=0.2, seed=1))


def test_two_commands_never_write_to_one_journal(path):
    with Journal(path, CALM), pytest.raises(ValueError, match="another command"):
        Journal(path, CALM)
    with Journal(path, CALM) as journal:
        assert len(journal.labels) == len(LABELS)


@pytest.mark.parametrize("damage", ["nonsense", "[]", '{"key": "k"}', "{}"])
def test_a_damaged_line_in_the_middle_is_named(path, damage):
    lines = path.read_text().splitlines()
    lines[2] = damage
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="line 3 is damaged"):
        Journal(path, CALM)


def test_something_else_than_a_journal_is_refused_and_left_alone(path):
    for head in ({"format": 99, "sampling": {}}, {"a": 1}):
        path.write_text(json.dumps(head) + "\n")
        before = path.read_bytes()
        with pytest.raises(ValueError, match="no head of a journal"):
            Journal(path, CALM)
        assert path.read_bytes() == before
