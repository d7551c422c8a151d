"""Retraining by itself, with real child processes: a script stands in for train and promote."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drift.attempts_file import load_attempts, retraining_path
from drift.comparison import Comparison, Gap, Rivals, Verdict
from drift.entry import Entry
from drift.retraining import Attempt, Phase, RetrainConfig
from serving import background
from serving.retrain import BY_RETRAINING, Commands, Decayed, Retrainer
from tests.serving.parts import SECRET

CONFIG = RetrainConfig(gather=50, shadow=20, cooldown_s=100.0)

#: Does what its environment says, and notes what it was asked.
SCRIPT = """
import json, os, sys, time
with open(os.environ["ASKED"], "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\\n")
import getpass
print("by", getpass.getuser(), file=sys.stderr)
if "--challenger" in sys.argv:
    what = os.environ.get("TRAIN", "")
    if what == "hang":
        open(os.environ["ASKED"] + ".pid", "w").write(str(os.getpid()))
        time.sleep(600)
    if what == "fail":
        print("noise", file=sys.stderr)
        print("error: outcomes.db: 3 outcomes: too few to train on", file=sys.stderr)
        sys.exit(2)
    print("some progress", file=sys.stderr)
    print(json.dumps({"name": "length-ranker", "version": "2", "missed": []}))
else:
    good = os.environ.get("GATE", "") != "refuse"
    checks = [{"name": "tau-b", "passed": good, "reason": "orders worse by 0.050"}]
    verdict = {"summary": "tau-b .41 against .20 on 300 rows", "checks": checks}
    print(json.dumps({"promoted": good, "verdict": verdict}))
    sys.exit(0 if good else 1)
"""


@dataclass
class World:
    folder: Path
    now: float = 1000.0
    decayed: list[Decayed] = field(default_factory=list)
    pairs: int = 0
    found: Comparison | None = None
    given_up: list[tuple[str, str, str]] = field(default_factory=list)
    said: list[Entry] = field(default_factory=list)
    config: RetrainConfig = CONFIG

    def made(self, decayed: Callable[[], list[Decayed]] | None = None) -> Retrainer:
        script = self.folder / "script.py"
        script.write_text(SCRIPT)
        commands = Commands(
            self.folder / "outcomes.db", "sqlite:///x.db",
            lambda arguments: [sys.executable, str(script), *arguments],
        )  # fmt: skip
        return Retrainer(
            self.config, commands, decayed or (lambda: self.decayed),
            lambda served_model, version: (self.pairs, self.found),
            self.said.append, lambda: self.now,
            lambda *challenger: self.given_up.append(challenger), poll_s=0.01,
        )  # fmt: skip

    def degraded(self, outcomes: int, version: str = "1") -> None:
        self.decayed = [Decayed("m", "length-ranker", "champion", version, "degraded", outcomes)]

    @property
    def asked(self) -> list[list[str]]:
        file = self.folder / "asked"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def phases(self) -> list[str]:
        return [entry.after for entry in self.said]

    @property
    def kept(self) -> Attempt:
        return load_attempts(retraining_path(self.folder / "outcomes.db"))["m"]


@pytest.fixture
def world(tmp_path, monkeypatch) -> World:
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    return World(tmp_path)


def until(true: Callable[[], bool]) -> None:
    tick = threading.Event()
    while not true():
        tick.wait(0.01)


def test_from_the_alert_to_the_promotion(world):
    retrainer = world.made()
    retrainer.step()
    assert world.said == []  # all is well
    world.degraded(100)
    retrainer.step()
    world.degraded(149)
    retrainer.step()
    assert world.phases == ["gathering"]
    assert world.asked == []
    world.degraded(150)
    retrainer.step()
    assert world.phases == ["gathering", "training", "trained"]
    (train,) = world.asked
    assert train == [
        "train", "--from-outcomes", str(world.folder / "outcomes.db"), "--served-model", "m",
        "--name", "length-ranker", "--challenger", "--reason", "drift: degraded",
        "--tracking-uri", "sqlite:///x.db", "--json",
    ]  # fmt: skip
    retrainer.step()
    assert len(world.asked) == 1  # 20 shadowed outcomes are wanted
    world.pairs = 20
    retrainer.step()
    assert world.asked[1][:3] == ["promote", "length-ranker", "2"]
    assert world.phases[3:] == ["promoting", "promoted"]
    last = world.said[-1]
    assert (last.kind, last.actor, last.version, last.gate) == (
        "retraining", "rank service", "2", "tau-b .41 against .20 on 300 rows",
    )  # fmt: skip
    log = (world.folder / "outcomes.db.retraining.log").read_text()
    assert "some progress" in log
    assert log.count(", by retraining\n") == 2  # who promoted, for the registry's history
    assert retrainer.rows()[0]["phase"] == "promoted"
    assert json.dumps(retrainer.rows())


def test_a_refusal_gives_the_gate_s_reasons_and_each_one_doubles_the_pause(world, monkeypatch):
    monkeypatch.setenv("GATE", "refuse")
    world.config = RetrainConfig(gather=0, shadow=0, cooldown_s=100.0)
    world.degraded(100)
    retrainer = world.made()

    def tried() -> int:
        for _ in range(4):
            retrainer.step()
        return sum(command[0] == "promote" for command in world.asked)

    assert tried() == 1
    assert world.said[-1].after == "refused"
    assert world.said[-1].reasons == ("tau-b: orders worse by 0.050",)
    assert world.given_up == [("m", "length-ranker", "2")]
    world.now += 99.0
    assert tried() == 1
    world.now += 2.0
    assert tried() == 2
    world.now += 101.0
    assert tried() == 2  # 200 s now
    world.now += 100.0
    assert tried() == 3
    assert RetrainConfig(cooldown_s=1.0).pause_s(50) == 16.0


def test_a_failure_says_what_the_command_said(world, monkeypatch):
    monkeypatch.setenv("TRAIN", "fail")
    world.config = RetrainConfig(gather=0)
    world.degraded(100)
    retrainer = world.made()
    retrainer.step()
    retrainer.step()
    assert world.phases == ["gathering", "training", "failed"]
    assert world.said[-1].reasons == (
        "training ended with status 2: outcomes.db: 3 outcomes: too few to train on",
    )


def test_settings_of_training_go_to_the_command(world):
    commands = Commands(world.folder / "outcomes.db", start=list)
    attempt = Attempt("m", "length-ranker", "champion", "1", Phase.TRAINING, 0.0, 0.0)
    config = RetrainConfig(config="quick.toml", half_life=250.0)
    command = commands.train(attempt, config)
    assert command[command.index("--config") + 1] == "quick.toml"
    assert command[command.index("--half-life") + 1] == "250"
    assert "--tracking-uri" not in command


def test_a_command_that_cannot_be_run_is_a_failure(world):
    world.config = RetrainConfig(gather=0)
    world.degraded(100)
    retrainer = Retrainer(
        world.config,
        Commands(world.folder / "outcomes.db", start=lambda a: [str(world.folder / "none"), *a]),
        lambda: world.decayed, lambda m, v: (0, None), world.said.append, lambda: 0.0,
    )  # fmt: skip
    retrainer.step()
    retrainer.step()
    assert world.phases[-1] == "failed"


def test_a_challenger_that_is_worse_on_live_traffic_never_reaches_the_gate(world):
    world.config = RetrainConfig(gather=0, shadow=5)
    world.degraded(100)
    retrainer = world.made()
    retrainer.step()
    retrainer.step()
    gap = Gap("all", 200, 0.4, 0.2, -0.2, -0.3, -0.1)
    world.pairs = 200
    world.found = Comparison(Rivals("m", "length-ranker", "1", "2"), Verdict.WORSE, gap)
    retrainer.step()
    assert world.phases[-1] == "refused"
    assert "-0.200" in world.said[-1].reasons[0]
    assert [command[0] for command in world.asked] == ["train"]


def test_what_waits_too_long_goes_on_and_what_got_well_is_left_alone(world):
    world.config = RetrainConfig(gather=50, gather_s=60.0, shadow=20, shadow_s=60.0)
    world.degraded(100)
    retrainer = world.made()
    retrainer.step()
    world.now += 61.0
    retrainer.step()
    assert world.phases[-1] == "trained"
    world.now += 61.0
    retrainer.step()
    assert world.phases[-1] == "promoted"

    world.now += 1e6
    world.degraded(100, version="2")
    retrainer.step()
    assert world.phases[-1] == "gathering"
    world.decayed = []
    retrainer.step()
    assert world.phases[-1] == "recovered"
    assert len(world.asked) == 2


def test_a_restart_in_the_middle_neither_loops_nor_forgets(world):
    world.degraded(100)
    first = world.made()
    first.step()
    gathering = world.made()  # another process
    world.degraded(150)
    gathering.step()
    assert world.kept.phase is Phase.TRAINED
    world.pairs = 20
    third = world.made()
    third.step()
    assert world.kept.phase is Phase.PROMOTED
    fourth = world.made()
    fourth.step()
    fourth.step()
    assert world.phases == ["gathering", "training", "trained", "promoting", "promoted"]
    world.now += 101.0
    fourth.step()
    assert world.phases[-1] == "promoted"  # who follows the alias may take its time
    world.now += 500.0
    fourth.step()
    assert world.phases[-1] == "rolled back"  # the old one serves, and nobody said why
    world.degraded(10, version="3")
    world.now += 101.0
    fourth.step()
    assert world.phases[-1] == "gathering"


def moved(kind: str, before: str, after: str, actor: str = "ann", at: float = 0.0) -> Entry:
    return Entry(at, kind, actor, "m", before, after, "length-ranker", after)


def promoted(world: World) -> Retrainer:
    """Version 1 was degraded, version 2 serves."""
    world.config = RetrainConfig(gather=0, shadow=0, cooldown_s=100.0)
    world.degraded(100)
    retrainer = world.made()
    for _ in range(3):
        retrainer.step()
    assert world.kept.phase is Phase.PROMOTED
    retrainer.moved(moved("promotion", "1", "2", f"svc{BY_RETRAINING}"))
    world.decayed = []
    retrainer.step()
    return retrainer


def test_who_rolls_back_what_was_promoted_has_the_last_word(world):
    retrainer = promoted(world)
    retrainer.moved(moved("rollback", "2", "1"))
    world.degraded(200)
    retrainer.step()
    again = world.made()  # after a restart, too
    for _ in range(5):
        again.step()
        world.now += 1e6
    assert world.phases[-2:] == ["promoted", "rolled back"]
    assert (world.kept.fruitless, world.kept.version, world.kept.challenger) == (1, "1", "2")
    assert "not retrained until somebody promotes" in world.said[-1].reasons[0]
    assert world.given_up[-1] == ("m", "length-ranker", "2")
    again.moved(moved("promotion", "1", "7", f"svc{BY_RETRAINING}"))  # is nobody
    again.step()
    assert world.phases[-1] == "rolled back"
    again.moved(moved("promotion", "1", "3"))
    again.step()
    assert world.phases[-1] == "recovered"
    world.now += 101.0
    again.step()
    assert world.phases[-1] == "gathering"
    assert world.kept.fruitless == 1


def test_a_new_version_that_decays_is_retrained_whatever_was_rolled_back(world):
    retrainer = promoted(world)
    retrainer.moved(moved("rollback", "2", "1"))
    retrainer.step()
    world.now += 101.0
    world.degraded(10, version="4")
    retrainer.step()
    assert (world.phases[-1], world.kept.version, world.kept.own) == ("gathering", "4", False)


def test_a_rollback_counts_while_the_promoted_version_is_replaced_itself(world):
    retrainer = promoted(world)
    world.now += 101.0
    world.config = RetrainConfig(gather=1000)
    world.degraded(300, version="2")
    retrainer.step()
    assert (world.phases[-1], world.kept.own, world.kept.fruitless) == ("gathering", True, 0)
    retrainer.moved(moved("rollback", "2", "1"))
    world.degraded(400)
    retrainer.step()
    assert world.phases[-1] == "rolled back"
    assert world.kept.holds("1")


def test_of_two_services_on_one_store_one_retrains_and_the_other_takes_over(world, caplog):
    world.degraded(100)
    first, second = world.made(), world.made()
    first.start()
    until(lambda: world.phases == ["gathering"])
    second.start()
    until(lambda: "another service retrains on outcomes.db" in caplog.text)
    assert (second.rows(), len(first.rows())) == ([], 1)
    first.close()
    until(lambda: bool(second.rows()))
    world.pairs = 20
    world.degraded(200)
    until(lambda: world.phases[-1] == "promoted")
    second.close()
    assert world.phases == ["gathering", "training", "trained", "promoting", "promoted"]
    assert caplog.text.count("another service retrains") == 1
    assert not list(world.folder.glob("*.out"))


def test_the_child_is_gone_when_the_service_stops_and_counts_as_failed(world, monkeypatch):
    monkeypatch.setenv("TRAIN", "hang")
    world.config = RetrainConfig(gather=0)
    world.degraded(100)
    retrainer = world.made()
    retrainer.start()
    pid_file = world.folder / "asked.pid"
    until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    retrainer.close()
    assert not _alive(int(pid_file.read_text()))
    assert world.said[-1].reasons == ("the service was stopped while it trained",)
    again = world.made()
    again.step()
    assert world.kept.phase is Phase.FAILED  # and rests


def test_an_attempt_that_died_with_its_service_counts_as_failed(world):
    world.degraded(100)
    retrainer = world.made()
    retrainer.step()
    path = retraining_path(world.folder / "outcomes.db")
    path.write_text(path.read_text().replace('"gathering"', '"training"'))
    again = world.made()
    again.start()
    until(lambda: world.phases[-1] == "failed")
    again.close()
    assert world.said[-1].reasons == ("the service ended while it trained",)
    assert world.asked == []


def test_training_that_takes_too_long_is_ended(world, monkeypatch):
    monkeypatch.setenv("TRAIN", "hang")
    world.config = RetrainConfig(gather=0, train_s=0.3)
    world.degraded(100)
    retrainer = world.made()
    retrainer.step()
    retrainer.step()
    assert "took too long" in world.said[-1].reasons[0]


def test_a_full_disk_starts_nothing(world, monkeypatch):
    world.config = RetrainConfig(gather=0)
    world.degraded(100)
    retrainer = world.made()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("serving.retrain.save_attempts", full)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            retrainer.step()
    assert (world.said, world.asked) == ([], [])


def test_a_file_that_is_something_else_is_refused(world):
    retraining_path(world.folder / "outcomes.db").write_text("[{}]")
    with pytest.raises(ValueError, match=r"remove it"):
        world.made()


@pytest.mark.parametrize("change", [{"gather": -1}, {"cooldown_s": float("inf")}, {"train_s": 0.0}])
def test_odd_settings_are_refused_by_name(change):
    with pytest.raises(ValueError, match=f"retrain.{next(iter(change))}"):
        RetrainConfig(**change)


# -- the child ------------------------------------------------------------------------------------


def test_a_background_command_is_ours_comes_last_and_goes_with_its_parent(tmp_path):
    """`shortfirst --version` through the real door, asked of its niceness by the way."""
    ended = background.run(
        background.shortfirst(["--version"]), tmp_path / "log", 60.0, _never(), dict(os.environ)
    )
    assert (ended.status, ended.stopped) == (0, False), (tmp_path / "log").read_text()
    assert ended.output.startswith("shortfirst ")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "pid")], env=dict(os.environ)
    )
    pid_file = tmp_path / "pid"
    until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    pid, nice = map(int, pid_file.read_text().split())
    assert nice == 19
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not _alive(pid))


PARENT = """
import sys, threading
from pathlib import Path
from serving import background

command = background.shortfirst(["--help"])
at = command.index("serving.background")
command[at - 1:at + 1] = ["-c", '''
import os, sys, time
import serving.background as background
def cli():
    path = sys.argv[1]
    open(path, "w").write(f"{os.getpid()} {os.getpriority(os.PRIO_PROCESS, 0)}\\\\n")
    time.sleep(600)
import serving.cli
serving.cli.main = cli
background.main()
''']
command[-1:] = [sys.argv[1]]
background.run(command, Path(sys.argv[1] + ".log"), 600.0, threading.Event().wait)
"""


def _never() -> Callable[[float], bool]:
    return threading.Event().wait


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_the_same_trouble_is_logged_once(tmp_path, caplog):
    seen, enough = [], threading.Event()

    def decayed():
        seen.append(None)
        if len(seen) >= 10:
            enough.set()
        if len(seen) == 5:
            return []  # well, for once
        if len(seen) > 7:
            raise OSError(SECRET)
        raise KeyError(SECRET)

    retrainer = World(tmp_path).made(decayed)
    with caplog.at_level(logging.ERROR, "serving.retrain"):
        retrainer.start()
        assert enough.wait(60)
        retrainer.close()
    kinds = [record.getMessage().split()[1] for record in caplog.records]
    assert kinds == ["KeyError", "KeyError", "OSError"]
    assert SECRET not in caplog.text
