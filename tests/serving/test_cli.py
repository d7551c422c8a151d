"""The command line as a user meets it: real processes where a process matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ranker.length_ranker import POOLED
from ranker.types import FinishReason
from serving.cli import COMMANDS, console
from serving.cli.console import UserError, cell, explain
from serving.paths import Home, sqlite_uri
from tests.serving.parts import SECRET, RankServer, WordRanker


def shortfirst(*arguments: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess:  # type: ignore[type-arg]
    return subprocess.run(
        [sys.executable, "-m", "serving.cli", *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, "COLUMNS": "120", **environ},
        timeout=120,
        check=False,
    )


def test_a_wrong_command_or_option_is_status_2_without_a_traceback() -> None:
    for arguments in (["nope"], ["rank", "--nope"], ["rank", "x", "--timeout", "soon"]):
        done = shortfirst(*arguments)
        assert done.returncode == 2
        assert b"Traceback" not in done.stderr


def test_help_needs_no_heavy_import() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from serving.cli import app; "
        "r = CliRunner().invoke(app, ['rank', '--help']); assert r.exit_code == 0, r.output; "
        "heavy = {'torch', 'mlflow', 'sklearn', 'grpc', 'pandas'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rank_without_a_service_says_how_to_start_one() -> None:
    done = shortfirst("rank", SECRET, "--target", "127.0.0.1:9")
    assert done.returncode == 1
    assert b"shortfirst serve" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("stdin", "message"), [(b"", b"no prompt"), (b"\n \n", b"no prompt"), (b"\xff", b"UTF-8")]
)
def test_rank_with_bad_input_is_status_2(stdin: bytes, message: bytes) -> None:
    done = shortfirst("rank", stdin=stdin)
    assert done.returncode == 2
    assert message in done.stderr


async def test_rank_asks_a_running_service(rank: RankServer, tmp_path: Path) -> None:
    import asyncio

    prompts = b"a b c\n\nd\ne f\n"
    done = await asyncio.to_thread(
        shortfirst, "rank", "--target", rank.address, "--json", stdin=prompts
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["ranker"], answer["version"], answer["served_model"]) == (
        "words",
        "1",
        "sharegpt",
    )
    assert [f["input"] for f in answer["forecasts"]] == [2, 3, 1]
    assert [f["p50"] for f in answer["forecasts"]] == [1.0, 2.0, 3.0]
    table = await asyncio.to_thread(
        shortfirst, "rank", "--target", rank.address, "one two", "[bold]x"
    )
    assert "[bold]x" in table.stdout.decode()
    many = "\n".join(f"{'w ' * (i % 7 + 1)}" for i in range(600)).encode()
    done = await asyncio.to_thread(
        shortfirst, "rank", "--target", rank.address, "--json", stdin=many
    )
    assert len(json.loads(done.stdout)["forecasts"]) == 600
    bad = await asyncio.to_thread(
        shortfirst, "rank", "--target", rank.address, "--served-model", "nobody", "x"
    )
    assert bad.returncode == 2
    assert b"served_model" in bad.stderr
    rank.rankers.replace(WordRanker(POOLED, novelty=0.99, trust=0.25))
    pooled = ["rank", "--target", rank.address, "--served-model", "nobody", "x"]
    table = await asyncio.to_thread(shortfirst, *pooled)
    assert "does not know nobody" in " ".join(table.stdout.decode().split())
    assert "a trust of 0.25" in " ".join(table.stdout.decode().split())
    answer = json.loads((await asyncio.to_thread(shortfirst, *pooled, "--json")).stdout)
    assert answer["fallback"]
    assert answer["forecasts"][0]["novelty"] == 0.99
    assert answer["forecasts"][0]["trust"] == 0.25
    text = tmp_path / "prompt ü.txt"
    text.write_bytes(b"\xff")
    bad = await asyncio.to_thread(shortfirst, "rank", "--file", str(text))
    assert bad.returncode == 2
    missing = await asyncio.to_thread(shortfirst, "rank", "--file", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert b"No such file" in missing.stderr


def test_errors_a_user_can_put_right_are_explained_and_others_are_not() -> None:
    assert explain(UserError("x", status=3)).status == 3  # type: ignore[union-attr]
    assert explain(ValueError("field: fix")).message == "field: fix"  # type: ignore[union-attr]
    missing = ModuleNotFoundError("No module named 'torch'", name="torch")
    assert "shortfirst[engine]" in explain(missing).message  # type: ignore[union-attr]
    absent = FileNotFoundError(2, "No such file or directory", "/x")
    assert explain(absent).message == "/x: No such file or directory"  # type: ignore[union-attr]
    assert explain(KeyError("x")) is None
    assert explain(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")) is None
    assert explain(ModuleNotFoundError("x", name="ranker.nothing")) is None


def test_the_fault_of_a_service_is_one_line() -> None:
    import grpc

    from serving.processes import ServiceFailed
    from serving.rank_query import QueryFailed

    nothing = grpc.aio.Metadata()
    status = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "gone away")
    for error, message, code in (
        (status, "a service answered UNAVAILABLE: gone away", 1),
        (grpc.RpcError(), "a service answered an error", 1),
        (QueryFailed("nobody there", unavailable=True), "nobody there", 1),
        (QueryFailed("what?", unavailable=False), "what?", 2),
        (ServiceFailed("rank ended"), "rank ended", 1),
    ):
        found = explain(error)
        assert found is not None
        assert (found.message, found.status) == (message, code)


def test_commands_are_listed_once() -> None:
    assert len(set(COMMANDS)) == len(COMMANDS) == 12


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (float("nan"), "-"), (True, "yes"), (1234567, "1,234,567"), (0.123456, "0.1235"),
     (12345.6, "12,346"), ("[x]", "[x]"), (FinishReason.STOP, "stop")],
)  # fmt: skip
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["é", float("nan")], ["y", float("inf")]]
    console.show(["a", "b"], rows, as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"a": "é", "b": None}, {"a": "y", "b": None}]


def test_tables_are_not_folded_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    console.show(["name"], [["word " * 25]], as_json=False)
    assert ("word " * 25).strip() in capsys.readouterr().out


def test_a_name_in_a_table_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("tenant",), [("a\x1b[2Jb\rc",), ("two\nlines é",)])
    text = capsys.readouterr().out
    assert not {"\x1b", "\r"} & set(text)
    assert r"a\x1b[2Jb\rc" in text
    assert "\\n" not in text
    assert "lines é" in text


def test_progress_off_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("Reading", total=10, unit="rows") as bar:
        bar.advance(4)
        bar.update(10)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["Reading ...", "Reading: 10 rows, done"]


def test_home_is_moved_by_the_environment(tmp_path: Path) -> None:
    home = Home.resolve({"SHORTFIRST_HOME": str(tmp_path / "mit Leer é")})
    assert home.root == tmp_path / "mit Leer é"
    assert home.cache.parent == home.outcomes.parent == home.reports.parent == home.root
    assert not home.root.exists()
    assert Home.resolve({}).root.name == "shortfirst"
    elsewhere = Home.resolve({"SHORTFIRST_TRACKING_URI": "http://mlflow.example:5000"})
    assert elsewhere.mlflow_uri == "http://mlflow.example:5000"
    assert Home.resolve({"SHORTFIRST_TRACKING_URI": ""}).mlflow_uri.startswith("sqlite:///")


def test_the_database_address_means_the_file_it_names(tmp_path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    for name in ("with space", "größe", "a%b", "hash#x", "plus+x"):
        folder = tmp_path / name
        folder.mkdir()
        engine = sqlalchemy.create_engine(Home(folder).mlflow_uri)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("CREATE TABLE t (x)"))
        engine.dispose()
        assert (folder / "mlflow.db").stat().st_size > 0
    for name in ("what?", "per%20cent"):
        with pytest.raises(ValueError, match="SHORTFIRST_HOME"):
            sqlite_uri(tmp_path / name / "mlflow.db")
