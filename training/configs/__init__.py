"""Training configurations as TOML: those that ship here, by name, and files of one's own.

Beside the settings a file may name its data (``data``, ``served_model``) and what training must
reach on it (``expected_metrics``), which makes it a regression test.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training.config import TrainConfig
from training.expect import Bound, bounds

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Configuration:
    """``data`` and ``served_model`` are empty where the file leaves them to the caller."""

    name: str
    train: TrainConfig
    data: str = ""
    served_model: str = ""
    expected: Mapping[str, Bound] = field(default_factory=dict)


def shipped() -> tuple[str, ...]:
    """Names of the configurations in this folder."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def read(spec: str) -> Configuration:
    """The configuration of a shipped name, or in the file at a path; empty: all defaults.

    Raises ``ValueError`` naming the file and the setting.
    """
    if not spec:
        return Configuration("defaults", TrainConfig())
    path = _FOLDER / f"{spec}.toml" if spec in shipped() else Path(spec)
    if not path.is_file():
        raise ValueError(f"config: {spec!r} is no file and none of {', '.join(shipped())}")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        expected = values.pop("expected_metrics", {})
        if not isinstance(expected, dict):
            raise ValueError("expected_metrics must be a table")
        named = {key: values.pop(key, "") for key in ("data", "served_model")}
        for key, value in named.items():
            if not isinstance(value, str):
                raise ValueError(f"{key} must be text, got {value!r}")
        return Configuration(
            path.stem, TrainConfig.from_dict(values), **named, expected=bounds(expected)
        )
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
