"""A real server started, timed, driven in turns and paused; and what is said when it dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from engine.bench.roofline import Machine, ModelSize
from serving.peers import report
from serving.peers.cpu import group_seconds
from serving.peers.report import Found
from serving.peers.servers import OURS, PEER, Running, Starter, Terms
from serving.peers.session import Starts, order, run
from serving.peers.work import Prompts, WorkConfig
from serving.processes import ServiceFailed, services

SECRET = "zq"
WORK = WorkConfig(
    concurrency=(1, 2), rounds=1, output_tokens=4, prompt_tokens=6, prefill_tokens=20,
    prefill_requests=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights that speaks in bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    path = tmp_path_factory.mktemp("model")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(path)
    config = LlamaConfig(
        vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=0, eos_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    core = min(os.sched_getaffinity(0))
    terms = Terms(folder, (core,), 1, "float32", max_num_seqs=4, max_model_len=128)
    with services(tmp_path_factory.mktemp("run")) as children:
        starter = Starter(children, terms, Path("no-peer"), Path("no-cache"))
        yield starter.start(OURS, "ours-1")


def prompts() -> Prompts:
    return Prompts(WORK, lambda ids: SECRET + "".join(chr(97 + i % 26) for i in ids), 2000)


def test_turns_alternate():
    assert [order(r) for r in range(3)] == [(OURS, PEER), (PEER, OURS), (OURS, PEER)]


def test_every_workload_runs_on_both_and_the_one_that_waits_takes_no_time(server: Running):
    assert server.first_token_s > 0
    assert os.sched_getaffinity(server.service.process.pid) == {min(os.sched_getaffinity(0))}
    tokens: list[int] = []
    both = {OURS: server, PEER: replace(server, name=PEER)}
    rows = run(both, WORK.workloads(), prompts(), 2, tokens.append)
    assert [(row.workload.concurrency, row.workload.prefill) for row in rows] == [
        (1, False), (2, False), (1, True),
    ]  # fmt: skip
    for row in rows:
        for runs in row.runs.values():
            assert len(runs) == 2
            assert all(run.output_tokens == row.workload.requests * row.workload.output_tokens
                       for run in runs)  # fmt: skip
            assert all(run.cores >= 0 and run.ttft > 0 for run in runs)
        mine, theirs = (row.runs[name] for name in (OURS, PEER))
        assert [r.prompt_tokens for r in mine] == [r.prompt_tokens for r in theirs]
    status = Path(f"/proc/{server.service.process.pid}/status").read_text()
    assert "State:\tT (stopped)" in status
    before = group_seconds(server.service.process.pid)
    assert group_seconds(server.service.process.pid) == before
    check_report(rows)


def check_report(rows):
    size = ModelSize(10_000, 2_000, 2, 4, 2, 8, 4)
    found = Found(
        Terms(Path("/models/m"), (0, 1), 1), WORK, rows,
        Starts({OURS: (3.0, 12.5), PEER: (60.0, 30.0)}), Machine(1e9, 1e9), size,
        {OURS: "1", PEER: "2"}, "Fast 9000", "made up",
    )  # fmt: skip
    tables = report.throughput_rows(found)
    assert [len(row) for row in tables] == [len(report.THROUGHPUT)] * 3
    assert [len(row) for row in report.latency_rows(found)] == [len(report.LATENCY)] * 7
    for row in rows:
        assert found.bound(row) > 0
    lines = report.verdicts(found)
    assert len(lines) == 2 * 3 + 2 + 1
    assert not lines[-1][0]
    assert "12.5 s" in lines[-1][1]
    value = report.as_dict(found)
    assert value["workloads"][0]["ratios"]["throughput"]["median"] > 0
    text = json.dumps(value) + " ".join(report.facts(found)) + str(tables)
    assert SECRET not in text
    assert "/models" not in text


def test_a_server_that_dies_is_explained_by_the_end_of_its_log(server: Running):
    both = {OURS: server, PEER: replace(server, name=PEER)}
    server.service.log.write_text("the last words\n")

    def kill(tokens: int) -> None:
        os.kill(server.service.process.pid, signal.SIGKILL)

    with pytest.raises(ServiceFailed, match="ended with status -9") as failed:
        run(both, WORK.workloads(), prompts(), 1, kill)
    assert "the last words" in str(failed.value)
    assert SECRET not in str(failed.value)
    with pytest.raises(ServiceFailed, match="ended with status -9"):
        run(both, WORK.workloads(), prompts(), 1)


def test_a_peer_that_cannot_start_is_explained(tmp_path: Path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho no such device; exit 3\n")
    python.chmod(0o755)
    terms = Terms(tmp_path, tuple(os.sched_getaffinity(0)), 1)
    with services(tmp_path / "run") as children:
        starter = Starter(children, terms, python, tmp_path / "cache")
        with pytest.raises(ServiceFailed, match=r"vllm-1 ended with status 3(.|\n)*no such device"):
            starter.start(PEER, "vllm-1")
