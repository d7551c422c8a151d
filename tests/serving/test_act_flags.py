"""How the command line says what is done about drift."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from drift.acting.config import ActConfig
from serving.cli import app
from serving.cli.act_flags import chosen_actions


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "act.toml"
    path.write_text(text)
    return path


def test_it_acts_unless_it_is_told_not_to(tmp_path: Path) -> None:
    assert chosen_actions(True, None) == ActConfig()
    assert chosen_actions(False, None) is None
    half = chosen_actions(True, written(tmp_path, "[act]\nwarn = 0.5\nfallback = false\n"))
    assert half == ActConfig(warn=0.5, fallback=False)
    nothing = "[act]\nshrink = false\nfallback = false\nrecalibrate = false\n"
    assert chosen_actions(True, written(tmp_path, nothing)) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[act\n", "act.toml is no TOML file"),
        ("warn = 0.5\n", "must hold one table"),
        ("[act]\n[other]\n", "must hold one table"),
        ("[act]\nworn = 0.5\n", "act.worn is not a setting"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        chosen_actions(True, written(tmp_path, text))


def test_a_file_and_no_act_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--no-act"):
        chosen_actions(False, written(tmp_path, "[act]\n"))


@pytest.mark.parametrize("command", ["serve", "up"])
def test_help_tells_of_it(command: str) -> None:
    found = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert found.exit_code == 0
    assert "--no-act" in found.output


def test_the_name_that_a_refusal_advises_to_allow_is_an_option_of_both() -> None:
    for command in ("serve", "up"):
        found = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
        assert "--allow-host" in found.output, command
