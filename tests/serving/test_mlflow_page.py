from __future__ import annotations

import shlex
from pathlib import Path

import pytest

pytest.importorskip("mlflow")

from serving.mlflow_page import mlflow_page
from serving.paths import Home


@pytest.mark.parametrize("name", ["plain", "with space", "ann's größe", "a$HOME"])
def test_of_a_file_it_is_a_command_that_a_shell_takes(tmp_path: Path, name: str) -> None:
    uri = Home(tmp_path / name).mlflow_uri
    command = shlex.split(mlflow_page(uri))
    assert command == [".venv/bin/mlflow", "ui", "--backend-store-uri", uri]


def test_of_a_server_it_is_its_address_without_the_password() -> None:
    environ = {"SHORTFIRST_TRACKING_URI": "https://ann:secret@mlflow.example:5000/base"}
    assert mlflow_page(Home.resolve(environ).mlflow_uri) == "https://mlflow.example:5000/base"
    assert mlflow_page("http://127.0.0.1:5000") == "http://127.0.0.1:5000"
