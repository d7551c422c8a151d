"""Lanes as written by an operator: what is understood, and how mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.lanes import LaneConfig, Slo
from engine.core.policies import Setting
from serving.lanes_file import EXAMPLE, LaneSpec, parse_lanes, read_lanes

DEFAULT = LaneSpec(LaneConfig("default", max_wait=90.0), "ranked", Setting.SAFE)


def test_everything_may_be_said() -> None:
    text = """
    [[lane]]
    name = "chat"
    policy = "boost:tier=0.2"
    setting = "fast"
    share = 3
    precedence = -1
    max_wait = 60
    max_waiting = 500
    reclaim = true
    slo = {ttft = 2, tpot = 0.2}
    [[lane]]
    name = "batch"
    slo.e2el = 600.5
    """
    assert parse_lanes(text, DEFAULT) == (
        LaneSpec(
            LaneConfig("chat", 3, -1, 60, 500, True, Slo(ttft=2, tpot=0.2)),
            "boost:tier=0.2",
            Setting.FAST,
        ),
        LaneSpec(LaneConfig("batch", max_wait=90.0, slo=Slo(e2el=600.5)), "ranked", Setting.SAFE),
    )


def test_the_example_of_the_documentation_is_understood() -> None:
    (lane,) = parse_lanes(EXAMPLE, DEFAULT)
    assert lane.config.slo == Slo(ttft=2, tpot=0.2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"\[\[lane\]\]"),
        ("lane = []", "at least one"),
        ("[lane]\nname = 'a'", r"begin with \[\[lane\]\]"),
        ("lane = [1]", r"begin with \[\[lane\]\]"),
        ("[[lane]", "not TOML"),
        ("[[lanes]]\nname = 'a'", "no key 'lanes'"),
        ("[[lane]]\nshare = 2", "lane 1 must have a name"),
        ("[[lane]]\nname = ''", "name must not be empty"),
        ("[[lane]]\nname = 3", "lane 1: name must be a string, got 3"),
        ("[[lane]]\nname = 'a'\nshre = 2", "lane 'a' has no key 'shre'"),
        ("[[lane]]\nname = 'a'\nshare = 0", "lane 'a': share must be"),
        ("[[lane]]\nname = 'a'\nshare = true", "lane 'a': share must be a number, got True"),
        ("[[lane]]\nname = 'a'\nprecedence = 0.5", "precedence must be a whole number"),
        ("[[lane]]\nname = 'a'\nmax_waiting = '9'", "max_waiting must be a whole number"),
        ("[[lane]]\nname = 'a'\nreclaim = 1", "reclaim must be true or false"),
        ("[[lane]]\nname = 'a'\nsetting = 'slow'", "lane 'a': setting must be one of safe"),
        ("[[lane]]\nname = 'a'\nslo = 2", "lane 'a': slo must be a table"),
        ("[[lane]]\nname = 'a'\nslo.ttfb = 2", "lane 'a': slo has no key 'ttfb'"),
        ("[[lane]]\nname = 'a'\nslo.ttft = 0", "lane 'a': slo.ttft must be above 0"),
        ("[[lane]]\nname = 'a'\n[[lane]]\nname = 'a'", "lane 'a' is there twice"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "lanes.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^lanes\.toml: .*{said}"):
        read_lanes(path, DEFAULT)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lanes.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"lanes\.toml"):
        read_lanes(path, DEFAULT)
