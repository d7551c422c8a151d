"""``shortfirst label`` as a process, against an endpoint on a socket and the bundled model."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ranker.types import FinishReason
from serving.cli.console import UserError
from serving.cli.label import label
from tests.serving.openai_parts import bundled_folder
from tests.training.label.endpoint import Endpoint, error, prompt_of, serving, usual
from training.sources import read_table

SECRET = "zebra"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as running:
        yield running


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prömpts of mine.jsonl"
    rows = [
        {"prompt": f"{SECRET} word" * (1 + i % 4) + f" {i}", "id": f"p{i}", "split": split}
        for i, split in enumerate(("train", "train", "validation", "test") * 3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts ``shortfirst label``; whatever still runs in the end is killed."""
    with contextlib.ExitStack() as running:

        def begin(*arguments: object) -> subprocess.Popen[bytes]:
            process = running.enter_context(label_process(tmp_path, *arguments))
            running.callback(process.kill)
            return process

        yield begin


def label_process(tmp_path: Path, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "serving.cli", "label", *map(str, arguments)]
    environ = {**os.environ, "SHORTFIRST_HOME": str(tmp_path / "home é"), "A_KEY": "k123"}
    # A suite that a shell put in the background ignores Ctrl-C, and so would what it starts.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, preexec_fn=heed
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate()
    assert SECRET.encode() not in out + err
    assert b"Traceback" not in err, err
    return process.returncode, out.decode(), err.decode()


def until(path: Path, lines: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_it_goes_on_and_asks_for_nothing_twice(
    endpoint: Endpoint, prompts: Path, tmp_path: Path, start: Start
) -> None:
    out = tmp_path / "lengths.parquet"
    journal = tmp_path / "lengths.parquet.journal"
    options = ("--out", out, "--prompts", prompts, "--endpoint", endpoint.url, "--draws", 2,
               "--concurrency", 4, "--api-key-env", "A_KEY", "--max-tokens", 60)  # fmt: skip
    endpoint.free = 7
    killed = start(*options)
    until(journal, 1 + 7, killed)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not out.exists()
    with journal.open("ab") as torn:
        torn.write(b'{"key":"half a li')

    endpoint.free = 5
    stopped = start(*options)
    until(journal, 1 + 7 + 5, stopped)
    stopped.send_signal(signal.SIGINT)
    status, _, said = finish(stopped)
    assert status == 130
    assert "12 lengths are in" in said
    assert "goes on from there" in said

    endpoint.free = 1000
    status, printed, _ = finish(start(*options, "--keep-prompts", "--json"))
    assert status == 0
    assert set(endpoint.answered.values()) == {1}
    summary = json.loads(printed)
    assert (summary["rows"], summary["prompts"], summary["refused"]) == (24, 12, 0)
    assert set(summary["agreement"]) == {"train", "validation", "test"}
    data = read_table(out)
    assert len(data.examples) == 24
    assert summary["censored"] == sum(e.finish_reason.censored for e in data.examples)
    assert endpoint.headers[0]["authorization"] == "Bearer k123"
    assert endpoint.bodies[0]["model"] == "toy"  # the only one there
    assert SECRET.encode() not in journal.read_bytes()

    with pytest.raises(ValueError, match=r"temperature was 0\.7 and is 0\.0 now"):
        label(out, prompts, endpoint.url, max_tokens=60, temperature=0.0)


def test_mistakes_are_told_before_anything_is_asked(
    endpoint: Endpoint, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "lengths.jsonl"
    endpoint.models = ("a", "b")
    mine = tmp_path / "mine.parquet"
    mine.write_bytes(b"not made by label")
    for options, message in (
        ({"out": tmp_path / "x.csv"}, "must end in .parquet"),
        ({"out": out}, r"serves 2 models \(a, b\)"),
        ({"out": mine}, "no journal beside it"),
        ({"out": out, "api": "voice"}, "--api must be chat or completions"),
    ):
        with pytest.raises(ValueError, match=message):
            label(prompts=prompts, endpoint=endpoint.url, **options)  # type: ignore[arg-type]
    endpoint.models = ()
    with pytest.raises(ValueError, match="serves 0 models"):
        label(out, prompts, endpoint.url)
    with pytest.raises(UserError, match=r"401.*--model"):
        label(out, prompts, endpoint.url.replace("/v1", "/locked"))
    assert mine.read_bytes() == b"not made by label"
    assert endpoint.bodies == []
    assert list(tmp_path.glob("*.journal")) == []


def test_refused_prompts_are_counted_once_however_many_draws(
    endpoint: Endpoint, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longest = max(len(json.loads(row)["prompt"]) for row in prompts.read_text().splitlines())
    too_long = error(400, "context_length_exceeded")
    endpoint.reply = lambda body: (
        too_long if len(prompt_of(body)) >= longest - 1 else usual(body)
    )  # fmt: skip
    out = tmp_path / "lengths.jsonl"
    for as_json in (True, False):  # the second time, little or nothing is asked
        label(out, prompts, endpoint.url, draws=4, concurrency=2, json=as_json)
        said = capsys.readouterr()
        if as_json:
            summary = json.loads(said.out)
            assert (summary["rows"], summary["prompts"], summary["refused"]) == (36, 9, 3)
        assert as_json or "3 prompts were refused" in said.err
        assert SECRET not in said.out + said.err


def test_a_run_that_is_refused_altogether_writes_nothing_and_goes_on_when_that_is_mended(
    endpoint: Endpoint, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "lengths.jsonl"
    endpoint.reply = lambda body: error(422, "unknown_field")
    for limit, message in ((0, "8 prompts in a row"), (1, "3 prompts were refused and none")):
        with pytest.raises(UserError, match=message):
            label(out, prompts, endpoint.url, draws=4, limit=limit)
        assert not out.exists()
    endpoint.reply = usual
    label(out, prompts, endpoint.url, draws=4)
    assert len(out.read_text().splitlines()) == 48


@pytest.mark.slow
def test_the_bundled_model_answers_without_an_endpoint(
    request: pytest.FixtureRequest, prompts: Path, tmp_path: Path, start: Start
) -> None:
    folder = bundled_folder(request)
    (tmp_path / "home é").mkdir()
    (tmp_path / "home é" / "cache").symlink_to(folder.parent)  # converted and compiled already
    out = tmp_path / "lengths.jsonl"
    options = ("--out", out, "--prompts", prompts, "--limit", 1, "--draws", 2, "--max-tokens", 6,
               "--threads", 1, "--temperature", 0.2)  # fmt: skip
    status, _, said = finish(start(*options))
    assert status == 0, said
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 6
    assert {row["model"] for row in rows} == {"smollm2-135m-instruct"}
    assert all(0 < row["output_tokens"] <= 6 for row in rows)
    cut = [row["output_tokens"] == 6 for row in rows if row["finish_reason"] != FinishReason.STOP]
    assert all(cut)
    status, _, said = finish(start(*options))
    assert status == 0
    assert "Starting the engine" not in said  # nothing was missing
