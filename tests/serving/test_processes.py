"""The real parts as real processes: a trained ranker from the registry, the bundled model."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from drift.outcomes import OutcomeStore
from ranker.length_ranker import LengthRanker
from ranker.records import RunRecord
from ranker.registry import Registry
from ranker.types import FinishReason
from serving.paths import Home
from serving.processes import Services, services
from serving.rank_query import query
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc
from tests.serving.openai_parts import bundled_folder
from tests.serving.parts import SECRET
from training.config import TrainConfig
from training.fit import train
from training.lexical_config import LexicalConfig, TreeConfig
from training.sources import Example

pytestmark = pytest.mark.slow

SHORT, LONG = "Answer briefly: what is the capital of {}?", "Write a long essay about {}."


def trained() -> LengthRanker:
    rng = random.Random(3)
    examples = []
    for i in range(400):
        long = i % 2 == 0
        prompt = (LONG if long else SHORT).format(rng.choice(["Norway", "Peru", "Chad", "Laos"]))
        tokens = rng.randint(300, 600) if long else rng.randint(5, 40)
        split = "validation" if i % 4 == 3 or i % 8 == 0 else "train"
        reason = FinishReason.STOP
        examples.append(Example(f"{prompt} ({i})", tokens, reason, "sharegpt", str(i), split))
    config = TrainConfig(lexical=LexicalConfig(trees=TreeConfig(rounds=20)))
    return train(examples, config, served_model="sharegpt", name="length-ranker").ranker


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with blanks and accents in its path, and a champion in its registry."""
    root = tmp_path_factory.mktemp("shortfirst") / "mon dossier é"
    home = Home(root)
    registry = Registry(home.mlflow_uri, home.artifacts)
    ranker = trained()
    for _ in range(2):
        with registry.start(RunRecord("test", "run")) as log:
            log.model(ranker, "A ranker of a test.")
        registry.register(log.run_id, "length-ranker")
    registry.set_alias("length-ranker", "champion", "1")
    before = os.environ.get("SHORTFIRST_HOME")
    os.environ["SHORTFIRST_HOME"] = str(root)
    yield home
    if before is None:
        del os.environ["SHORTFIRST_HOME"]
    else:
        os.environ["SHORTFIRST_HOME"] = before


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Path:
    return bundled_folder(request)


SERVE = ["serve", "--metrics-port", "0", "--reload-seconds", "0.2"]


def start_engine(running: Services, model: Path, rank: str) -> dict[str, str]:
    # Given costs: what this machine takes for a step is no part of this test.
    arguments = [
        "engine", "--model", str(model), "--served-model-name", "tiny", "--dtype", "float32",
        "--grpc-port", "0", "--http-port", "0", "--rank-target", rank,
        "--rank-deadline-ms", "2000", "--cost", "0.05,0.003,0.002", "--kv-gib", "0.2",
    ]  # fmt: skip
    return running.launch("engine", arguments).wait(120).addresses


def generate(
    stub: generate_pb2_grpc.GenerateServiceStub,
    prompt: str,
    request_id: str,
    tokens: int = 8,
    began: threading.Event | None = None,
) -> tuple[int, generate_pb2.Finish]:
    request = generate_pb2.GenerateRequest(
        prompt=prompt,
        request_id=request_id,
        sampling=generate_pb2.SamplingParams(max_tokens=tokens, ignore_eos=True, seed=1),
    )
    seen = 0
    for response in stub.Generate(request, timeout=100):
        if response.WhichOneof("event") == "finish":
            return seen, response.finish
        seen += len(response.chunk.token_ids)
        if began is not None:
            began.set()
    raise AssertionError("no finish")


def test_serve_loads_the_champion_follows_it_and_ends_with_status_0(
    home: Home, tmp_path: Path
) -> None:
    Registry(home.mlflow_uri, home.artifacts).set_alias("length-ranker", "champion", "1")
    with services(tmp_path) as running:
        service = running.launch("rank", [*SERVE, "--port", "0"]).wait()
        target = service.address("grpc")
        prompts = [LONG.format("Fiji"), SHORT.format("Fiji")]
        answer = query(target, prompts, "", 10.0)
        assert (answer.ranker, answer.version) == ("length-ranker", "1")
        assert answer.forecasts[0].median > answer.forecasts[1].median
        asked = subprocess.run(
            [sys.executable, "-m", "serving.cli", "rank", "--target", target, "--json", *prompts],
            capture_output=True,
            check=True,
        )
        assert [f["input"] for f in json.loads(asked.stdout)["forecasts"]] == [2, 1]

        Registry(home.mlflow_uri, home.artifacts).set_alias("length-ranker", "champion", "2")
        deadline = time.monotonic() + 60
        while query(target, prompts, "", 10.0).version != "2":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(30) == 0
        assert b"Traceback" not in service.log.read_bytes()


def test_serve_without_a_ranker_says_what_there_is(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "serving.cli", *SERVE, "--ranker", "models:/nobody@champion"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"nobody" in done.stderr
    assert b"Traceback" not in done.stderr


def test_streams_complete_while_the_rank_service_dies_and_returns(
    home: Home, model: Path, tmp_path: Path
) -> None:
    with services(tmp_path) as running:
        rank = running.launch("rank", [*SERVE, "--port", "0"]).wait()
        target = rank.address("grpc")
        engine = start_engine(running, model, target)
        with grpc.insecure_channel(engine["grpc"]) as channel:
            stub = generate_pb2_grpc.GenerateServiceStub(channel)
            seen, finish = generate(stub, f"{SECRET} {SHORT}", "before")
            assert (seen, finish.scored) == (8, True)

            # Killed while a stream runs: that one and those that follow complete.
            under_way: list[tuple[int, generate_pb2.Finish]] = []
            began = threading.Event()
            thread = threading.Thread(
                target=lambda: under_way.append(generate(stub, f"{SECRET} x", "during", 40, began))
            )
            thread.start()
            assert began.wait(100)
            rank.process.kill()
            rank.process.wait()
            for i in range(4):
                seen, finish = generate(stub, f"{SECRET} {i}", f"without-{i}")
                assert (seen, finish.scored) == (8, False)
            thread.join(100)
            seen, finish = under_way[0]
            assert (seen, finish.scored) == (40, True)
            page = httpx.get(engine["metrics"]).text
            assert 'finish_reason="length",scored="false"} ' in page
            assert "shortfirst_engine_requests_unscored_total 4.0" in page

            port = target.rpartition(":")[2]
            running.launch("rank-again", [*SERVE, "--port", port]).wait()
            deadline, i = time.monotonic() + 60, 0
            while not generate(stub, SHORT, f"again-{i}", 1)[1].scored:
                assert time.monotonic() < deadline
                i += 1

            body = {"prompt": f"{SECRET} {LONG}", "max_tokens": 4}
            answer = httpx.post(engine["http"] + "/v1/completions", json=body, timeout=60).json()
            assert answer["shortfirst"]["scored"]
            body = {"prompt": SECRET, "max_tokens": -4}
            assert httpx.post(engine["http"] + "/v1/completions", json=body).status_code == 400
    # Every outcome reached the store, those of the time without a rank service too.
    store = OutcomeStore(home.outcomes, create=False)
    outcomes = {o.request_id: o for o in store.by_report()}
    store.close()
    assert {"before", "during", *(f"without-{i}" for i in range(4))} <= set(outcomes)
    assert outcomes["before"].forecast is not None
    assert outcomes["without-0"].forecast is None
    assert outcomes["during"].output_tokens == 40
    assert {o.served_model for o in outcomes.values()} == {"sharegpt"}
    for file in [*tmp_path.iterdir(), *(f for f in home.root.iterdir() if f.is_file())]:
        assert SECRET.encode() not in file.read_bytes(), file.name
