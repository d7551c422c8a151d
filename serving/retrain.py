"""Retraining by itself: a version that has decayed starts it, the gate decides what comes of it."""

from __future__ import annotations

import getpass
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drift.attempts_file import (
    load_attempts,
    retraining_lock,
    retraining_path,
    save_attempts,
)
from drift.comparison import Comparison, Verdict
from drift.entry import Entry
from drift.retraining import Attempt, Phase, RetrainConfig
from serving import background
from serving.background import Ended
from serving.logs import failure

log = logging.getLogger(__name__)

#: What the registry's history has behind the name of who promoted.
BY_RETRAINING = ", by retraining"
_POLL_S = 2.0
#: After so long a service has followed an alias.
_FOLLOWED_S = 600.0
_GIVEN_UP = (Phase.REFUSED, Phase.FAILED, Phase.ROLLED_BACK)
#: Logs of so many attempts stay.
_MOST_LOG_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Decayed:
    """A version that serves and is ``degraded`` or worse as a whole. ``outcomes``: how many it has
    so far; ``alias`` stands for it in the registry."""

    served_model: str
    ranker: str
    alias: str
    version: str
    state: str
    outcomes: int


@dataclass(frozen=True, slots=True)
class Commands:
    """What is run: ``shortfirst train`` and ``promote`` on the ``outcomes`` of this service."""

    outcomes: Path
    tracking_uri: str = ""
    start: Callable[[Sequence[str]], list[str]] = background.shortfirst

    def train(self, attempt: Attempt, config: RetrainConfig) -> list[str]:
        options = ["--config", config.config] if config.config else []
        options += ["--half-life", f"{config.half_life:g}"] if config.half_life else []
        return self._command(
            "train", "--from-outcomes", str(self.outcomes), "--served-model", attempt.served_model,
            "--name", attempt.ranker, "--challenger", "--reason", f"drift: {attempt.state}",
            *options,
        )  # fmt: skip

    def promote(self, attempt: Attempt) -> list[str]:
        return self._command(
            "promote", attempt.ranker, attempt.challenger, "--alias", attempt.alias,
            "--outcomes", str(self.outcomes),
        )  # fmt: skip

    def environ(self) -> dict[str, str]:
        """So that the registry says who promoted: nobody was there, the service did."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # a container may not know its user
            user = "shortfirst"
        return {**os.environ, "LOGNAME": f"{user}{BY_RETRAINING}"}

    def _command(self, *arguments: str) -> list[str]:
        where = ["--tracking-uri", self.tracking_uri] if self.tracking_uri else []
        return self.start([*arguments, *where, "--json"])


class Retrainer:
    """One thread that starts at most one process at a time.

    ``decayed`` tells which versions need it, ``shadowed(served_model, version)`` how many outcomes
    a challenger was compared on and what came of that. It is asked anew all the time rather than
    told once, so that an alert that nobody heard, or one that outlasts the cooldown, counts too.
    Each phase is on disk before it begins: after a restart an attempt goes on, or counts as failed
    when its process ended with the service, and the cooldown runs from then on as before.

    ``given_up(served_model, ranker, version)`` is told of challengers that came to nothing. Of
    several services on the same outcomes one retrains; the others say so, and take over when it has
    ended.

    Raises ``ValueError`` when the file of attempts is something else.
    """

    def __init__(
        self,
        config: RetrainConfig,
        commands: Commands,
        decayed: Callable[[], Iterable[Decayed]],
        shadowed: Callable[[str, str], tuple[int, Comparison | None]],
        announce: Callable[[Entry], None],
        clock: Callable[[], float],
        given_up: Callable[[str, str, str], None] = lambda served_model, ranker, version: None,
        poll_s: float = _POLL_S,
    ) -> None:
        self._config = config
        self._commands = commands
        self._decayed = decayed
        self._shadowed = shadowed
        self._announce = announce
        self._clock = clock
        self._given_up = given_up
        self._poll_s = poll_s
        self._moves: deque[Entry] = deque()
        self._waits = False
        self._trouble = ""
        self._file = retraining_path(commands.outcomes)
        self._log = commands.outcomes.with_name(commands.outcomes.name + ".retraining.log")
        self._attempts = load_attempts(self._file)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="retrain", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the process that runs, if one does."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def moved(self, entry: Entry) -> None:
        """A promotion or a rollback, whoever did it. Returns at once."""
        self._moves.append(entry)

    def rows(self) -> list[dict[str, Any]]:
        """The last attempt of each served model, JSON-ready; none while another one retrains."""
        return (
            [] if self._waits else [attempt.as_dict() for attempt in list(self._attempts.values())]
        )

    # -- the thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closing.is_set():
            with self._mine() as mine:
                if mine:
                    self._retrain()
            self._closing.wait(self._poll_s)

    @contextmanager
    def _mine(self) -> Iterator[bool]:
        """Whether nobody else retrains on these outcomes."""
        with ExitStack() as held:
            try:
                mine = held.enter_context(retraining_lock(self._commands.outcomes))
                if mine and self._waits:  # what the other one left
                    self._attempts = load_attempts(self._file)
            except (OSError, ValueError) as error:
                mine, trouble = False, failure(error)
                if trouble != self._trouble:  # once, not every time
                    log.error("retraining: %s", trouble)
                self._trouble = trouble
            else:
                if not mine:
                    self._moves.clear()  # the other one follows them, too
                if not mine and not self._waits:
                    log.warning(
                        "another service retrains on %s: this one does not until that has ended",
                        self._commands.outcomes.name,
                    )
                self._waits = not mine
            yield mine

    def _retrain(self) -> None:
        self._resume()
        said = ""
        while not self._closing.is_set():
            trouble = ""
            try:
                self.step()
            except Exception as error:  # the thread has to live on
                trouble = failure(error)
                if trouble != said:  # once, not every time
                    log.error("retraining: %s", trouble)
            said = trouble
            self._closing.wait(self._poll_s)
        try:
            self._follow()  # what was moved last is not forgotten
        except Exception as error:
            log.error("retraining: %s", failure(error))

    def step(self) -> None:
        """Whatever is to be done now, which may take as long as training does."""
        self._follow()
        decayed = {one.served_model: one for one in self._decayed()}
        for attempt in list(self._attempts.values()):
            if not attempt.phase.over and not self._closing.is_set():
                self._advance(attempt, decayed.get(attempt.served_model))
        for one in decayed.values():
            last = self._attempts.get(one.served_model)
            if last is not None and (
                not last.phase.over
                or last.resting(self._clock(), self._config)
                or last.holds(one.version)
            ):
                continue
            if last is not None and last.phase is Phase.PROMOTED and last.version == one.version:
                # It serves again, and nobody said why; or still, for a moment.
                if self._clock() - last.since > _FOLLOWED_S:
                    self._keep(last.rolled_back(one.version, self._clock(), seen=False), last.phase)
                continue
            self._begin(one, last)

    def _resume(self) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.phase is Phase.TRAINING:
                self._go(attempt, Phase.FAILED, "the service ended while it trained")
            elif attempt.phase in _GIVEN_UP and attempt.challenger:
                self._given_up(attempt.served_model, attempt.ranker, attempt.challenger)

    def _follow(self) -> None:
        """Going back from what was promoted here holds that served model; a promotion by somebody
        frees it."""
        while self._moves:
            entry = self._moves[0]
            last = self._attempts.get(entry.served_model)
            if last is not None and last.ranker == entry.ranker:
                ours = (last.phase is Phase.PROMOTED and last.challenger == entry.before) or (
                    last.own and last.version == entry.before
                )
                if entry.kind == "rollback" and ours:
                    self._keep(last.rolled_back(entry.after, self._clock()), last.phase)
                elif (
                    entry.kind == "promotion"
                    and last.phase is Phase.ROLLED_BACK
                    and not entry.actor.endswith(BY_RETRAINING)
                ):
                    self._keep(last.released(entry.after, self._clock()), last.phase)
            self._moves.popleft()

    def _begin(self, one: Decayed, last: Attempt | None) -> None:
        now = self._clock()
        fruitless, own = 0, False
        if last is not None:
            promoted = last.phase is Phase.PROMOTED and last.challenger == one.version
            own = promoted or (last.own and last.version == one.version)
            fruitless = last.fruitless if last.version == one.version else 0
        attempt = Attempt(
            one.served_model, one.ranker, one.alias, one.version, Phase.GATHERING, now, now,
            one.state, one.outcomes, fruitless=fruitless, own=own,
            reasons=(f"version {one.version} is {one.state}",
                     f"training begins after {self._config.gather:,} more outcomes"),
        )  # fmt: skip
        self._keep(attempt, None)

    def _advance(self, attempt: Attempt, decayed: Decayed | None) -> None:
        waited, config = self._clock() - attempt.since, self._config
        if attempt.phase is Phase.GATHERING:
            if decayed is None or decayed.version != attempt.version:
                self._go(attempt, Phase.RECOVERED, f"version {attempt.version} is not degraded "
                         "any more, or does not serve")  # fmt: skip
            elif decayed.outcomes - attempt.outcomes >= config.gather or waited > config.gather_s:
                fresh = max(0, decayed.outcomes - attempt.outcomes)
                self._train(
                    self._go(attempt, Phase.TRAINING, f"{fresh:,} outcomes since the alert")
                )
        elif attempt.phase is Phase.TRAINED:
            pairs, found = self._shadowed(attempt.served_model, attempt.challenger)
            if pairs >= config.shadow or waited > config.shadow_s:
                self._ask(attempt, pairs, found)
        elif attempt.phase is Phase.PROMOTING:  # the gate was asked when the service ended
            self._promote(attempt)
        else:
            self._go(attempt, Phase.FAILED, "what came of its training could not be written down")

    def _train(self, attempt: Attempt) -> None:
        ended = self._run(self._commands.train(attempt, self._config), self._config.train_s)
        if ended.stopped and self._closing.is_set():
            self._go(attempt, Phase.FAILED, "the service was stopped while it trained")
            return
        result = _result(ended.output)
        version = str(result.get("version") or "")
        if result.get("missed"):
            self._go(attempt, Phase.REFUSED, f"version {version} misses metrics that its "
                     "configuration expects", challenger=version)  # fmt: skip
        elif ended.status or not version:
            self._go(attempt, Phase.FAILED, self._why(ended, "training"))
        else:
            self._go(attempt, Phase.TRAINED, f"version {version} is the challenger",
                     challenger=version)  # fmt: skip

    def _ask(self, attempt: Attempt, pairs: int, found: Comparison | None) -> None:
        if found is not None and found.verdict is Verdict.WORSE:
            self._go(attempt, Phase.REFUSED, f"beside version {attempt.version} on live traffic: "
                     f"{found.words}")  # fmt: skip
            return
        words = (
            found.words if found is not None else f"{pairs:,} shadowed outcomes: too few to compare"
        )
        self._promote(self._go(attempt, Phase.PROMOTING, words))

    def _promote(self, attempt: Attempt) -> None:
        ended = self._run(self._commands.promote(attempt), self._config.promote_s)
        if ended.stopped and self._closing.is_set():
            return  # asked again after the restart
        result = _result(ended.output)
        verdict = result.get("verdict") or {}
        said = str(verdict.get("summary") or "")
        if result.get("promoted"):
            self._go(attempt, Phase.PROMOTED, gate=said)
        elif said:
            reasons = [
                f"{check['name']}: {check['reason']}"
                for check in verdict.get("checks", ())
                if not check.get("passed")
            ]
            self._go(attempt, Phase.REFUSED, *(reasons or [said]))
        else:
            self._go(attempt, Phase.FAILED, self._why(ended, "the gate"))

    def _run(self, command: Sequence[str], within_s: float) -> Ended:
        if self._log.exists() and self._log.stat().st_size > _MOST_LOG_BYTES:
            self._log.replace(self._log.with_name(self._log.name + ".1"))
        try:
            return background.run(
                command, self._log, within_s, self._closing.wait, self._commands.environ()
            )
        except OSError as error:
            log.error("retraining: %s could not be run: %s", command[0], error.strerror)
            return Ended(127, "")

    def _why(self, ended: Ended, what: str) -> str:
        """In words; of the log only lines that the command line writes for its user."""
        if ended.stopped:
            return f"{what} took too long and was stopped"
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-200:]
        said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        end = f"{what} ended with status {ended.status}"
        return f"{end}: {said[-1]}" if said else f"{end}; see {self._log.name}"

    def _go(
        self, attempt: Attempt, phase: Phase, *reasons: str, challenger: str = "", gate: str = ""
    ) -> Attempt:
        after = attempt.to(phase, self._clock(), *reasons, challenger=challenger, gate=gate)
        return self._keep(after, attempt.phase)

    def _keep(self, attempt: Attempt, before: Phase | None) -> Attempt:
        kept = {**self._attempts, attempt.served_model: attempt}
        save_attempts(self._file, kept)  # first: what was not written must not begin
        self._attempts = kept
        self._announce(attempt.entry(before))
        if attempt.phase in _GIVEN_UP and attempt.challenger:
            self._given_up(attempt.served_model, attempt.ranker, attempt.challenger)
        return attempt


def _result(output: str) -> dict[str, Any]:
    """The JSON object that a command printed; empty when it printed none."""
    try:
        found = json.loads(output[output.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
