"""Work, measures and command lines: what both servers are told, and what their ratios mean."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from statistics import median

import pytest
import typer
from typer.testing import CliRunner

from engine.timings import Timing
from serving.peers import servers
from serving.peers.client import Ask, Reply
from serving.peers.cpu import group_seconds, processor
from serving.peers.measures import Measured, Ratio, Row
from serving.peers.servers import Terms, ours, peer, peer_environ
from serving.peers.work import Prompts, WorkConfig, Workload, real_prompts

TERMS = Terms(Path("/models/m"), cores=(0, 2, 5), threads=2, token_budget=1024)


def reply(arrival: float, first: float, finished: float, prompt: int, output: int, gaps=()):
    return Reply(Timing("r", arrival, first, finished, prompt, output), tuple(gaps))


def measured(throughput=1.0, ttft=1.0, tpot=1.0) -> Measured:
    return Measured(throughput, ttft, tpot, 1.0, 1.0, 1.0, 1.0, 1, 1)


def test_measures_of_a_run_are_those_of_its_replies():
    replies = [reply(10.0, 10.5, 12.5, 7, 5, (0.5, 1.5)), reply(10.0, 11.0, 14.0, 9, 4, (3.0,))]
    run = Measured.of(Workload(2, 2, 5), replies, cpu_seconds=6.0)
    assert run.throughput == pytest.approx((5 + 4) / 4.0)
    assert run.ttft == pytest.approx((0.5 + 1.0) / 2)
    assert run.tpot == pytest.approx((2.0 / 4 + 3.0 / 3) / 2)
    assert run.cores == pytest.approx(1.5)
    assert (run.prompt_tokens, run.output_tokens) == (16, 9)
    prefill = Measured.of(Workload(1, 2, 1, prefill=True), replies, 0.0)
    assert prefill.throughput == pytest.approx(16 / 4.0)


def test_above_one_ours_is_better_whatever_is_measured():
    mine, theirs = [measured(30.0, 0.1, 0.2)], [measured(20.0, 0.3, 0.1)]
    assert Ratio.of("throughput", mine, theirs).median == pytest.approx(1.5)
    assert Ratio.of("ttft", mine, theirs).median == pytest.approx(3.0)
    assert Ratio.of("tpot", mine, theirs).median == pytest.approx(0.5)


def test_a_ratio_is_the_median_of_pairs_with_their_extremes():
    a, b = [10.0, 12.0, 30.0, 9.0, 11.0], [5.0, 4.0, 10.0, 9.0, 22.0]
    found = Ratio.of("throughput", [measured(x) for x in a], [measured(x) for x in b])
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    assert (found.median, found.low, found.high) == (median(ratios), min(ratios), max(ratios))
    row = Row(Workload(1, 1, 1), {"a": tuple(map(measured, a)), "b": tuple(map(measured, b))})
    assert row.ratio("throughput", "a", "b") == found
    assert row.median("a", "throughput") == 11.0
    with pytest.raises(ValueError, match="pair"):
        Ratio.of("ttft", [], [])
    with pytest.raises(ValueError, match="shorter"):
        Ratio.of("ttft", [measured()], [])


def test_both_servers_are_told_the_same():
    mine, theirs = ours(TERMS, 8001), peer(Path("/venv/bin/python"), TERMS, 8002)
    for option, value in (
        ("--model", "/models/m"), ("--served-model-name", "bench"), ("--dtype", "bfloat16"),
        ("--max-num-seqs", "32"), ("--max-num-batched-tokens", "1024"), ("--max-model-len", "2048"),
    ):  # fmt: skip
        for command in (mine, theirs):
            assert command[command.index(option) + 1] == value
    assert "--no-prefix-cache" in mine
    assert "--no-enable-prefix-caching" in theirs
    assert mine[mine.index("--threads") + 1] == "2"
    assert theirs[:3] == ["/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server"]


def test_the_peer_computes_on_the_last_cores_and_sees_nothing_of_our_environment():
    before = {"PYTHONPATH": "/ours", "VIRTUAL_ENV": "/ours", "PATH": "/bin", "LD_PRELOAD": "x.so"}
    environ = peer_environ(TERMS, Path("/cache"), before)
    assert environ["VLLM_CPU_OMP_THREADS_BIND"] == "2,5"
    assert environ["VLLM_CACHE_ROOT"] == "/cache"
    assert environ["HF_HUB_OFFLINE"] == environ["VLLM_NO_USAGE_STATS"] == "1"
    assert environ["PATH"] == "/bin"
    assert not {"PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD"} & set(environ)


def test_our_command_line_is_one_that_the_engine_takes():
    from serving.cli import app

    result = CliRunner().invoke(app, [*ours(TERMS, 8001), "--check"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--concurrency", "4,x"], "--concurrency must be numbers"),
        (["--concurrency", "0"], "concurrency must name counts"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--starts", "0"], "--starts must be at least 1"),
        (["--prompts", "made-up"], "--prompts must be one of"),
        (["--cores", "9999"], "--cores: this process may not use"),
        (["--threads", "9999"], "threads must be 1 to"),
        (["--dtype", "int4"], "--dtype must be one of"),
        (["--model", "/nowhere"], "--model: /nowhere is neither"),
        (["--set-up", "--peer-venv", "/nowhere"], "--peer-venv: /nowhere holds no bin/python"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_wrong_option_is_named_before_anything_starts(arguments, problem, tmp_path, monkeypatch):
    from serving.cli.bench import peers as command
    from serving.cli.console import explain

    monkeypatch.setenv("SHORTFIRST_HOME", str(tmp_path))
    (tmp_path / "config.json").touch()
    line = ["--model", str(tmp_path), *arguments]
    app = typer.Typer()
    app.command()(command.peers)
    result = CliRunner().invoke(app, line)
    error = explain(result.exception)
    assert error is not None
    assert problem in error.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cores": ()}, "cores"),
        ({"threads": 4}, "threads must be 1 to 3"),
        ({"threads": 0}, "threads"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"kv_gib": 1.5}, "kv_gib must be whole"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused(changes, problem):
    values = {"model": Path("m"), "cores": (0, 1, 2), "threads": 1}
    with pytest.raises(ValueError, match=problem):
        Terms(**(values | changes))


def test_prompts_are_the_same_for_both_and_new_in_every_repetition():
    config = WorkConfig(concurrency=(2, 4), rounds=3, prompt_tokens=5, prefill_tokens=9)
    decode = lambda ids: " ".join(map(str, ids))  # noqa: E731
    serve, _, prefill = config.workloads()
    assert (serve.requests, prefill.requests, prefill.output_tokens) == (6, 6, 1)
    one, again = (Prompts(config, decode, 5000) for _ in range(2))
    assert one.draw(serve, 0) == again.draw(serve, 0)
    assert one.draw(serve, 0) != one.draw(serve, 1)
    sizes = {len(ask.prompt.split()) for ask in one.draw(serve, 0)}
    assert sizes == {5}
    assert {len(ask.prompt.split()) for ask in one.draw(prefill, 0)} == {9}
    assert all(
        1000 <= int(token) < 5000 for ask in one.draw(serve, 0) for token in ask.prompt.split()
    )
    real = Prompts(config, decode, 5000, ["a real one"])
    assert {ask.prompt for ask in real.draw(serve, 0)} == {"a real one"}
    assert "a real one" not in {ask.prompt for ask in real.draw(prefill, 0)}
    assert "real" not in repr(Ask("a real one", 3))


def test_real_prompts_are_those_that_fit():
    rows = [("a", 15), ("b", 16), ("c", 512), ("d", 513)]
    assert real_prompts(rows, 16, 512) == ["b", "c"]
    with pytest.raises(ValueError, match="--prompts random"):
        real_prompts(rows, 600, 700)


@pytest.mark.parametrize(
    "changes",
    [{"concurrency": ()}, {"concurrency": (0,)}, {"rounds": 0}, {"output_tokens": 1}],
    ids=str,
)
def test_work_that_measures_nothing_is_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        WorkConfig(**changes)


def test_processor_time_is_that_of_the_group_alone(tmp_path: Path):
    tick = os.sysconf("SC_CLK_TCK")
    for pid, group, times in ((10, 10, "3 4 0 0"), (11, 10, "5 0 1 2"), (12, 99, "7 7 7 7")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        head = f"{pid} (a) name) S 1 {group} {group} 0 -1 0 0 0 0 0"
        (folder / "stat").write_text(f"{head} {times} 20 0 1")
    (tmp_path / "13").mkdir()  # ended while it was read
    assert group_seconds(10, tmp_path) == pytest.approx((3 + 4 + 5 + 1 + 2) / tick)
    burn = ["python3", "-c", "x = sum(i * i for i in range(10**6)); print(flush=True); input()"]
    with subprocess.Popen(
        burn, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert group_seconds(child.pid) >= 1 / tick
        child.communicate(b"\n")
    assert group_seconds(child.pid) == 0.0


def test_the_processor_is_named_as_the_system_does(tmp_path: Path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Fast 9000\nmodel name\t: Fast 9000\n")
    assert processor(file) == "Fast 9000"
    assert processor(tmp_path / "none") == "unknown processor"


def test_a_free_port_can_be_bound():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", servers.free_port()))
