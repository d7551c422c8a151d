"""The training loop: batches in, a better network out, again and again from where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ranker.encoder.network import SCORES, LengthNetwork
from ranker.metrics import order
from training.encoder import checkpoint
from training.encoder.batches import (
    Index,
    Inputs,
    epoch_batches,
    inputs,
    lengths,
    share,
    sorted_batches,
)
from training.encoder.checkpoint import Course
from training.encoder.config import EncoderConfig
from training.encoder.objective import Objective
from training.encoder.optimizer import make_optimizer, restore_state, set_rates, state_tensors
from training.encoder.precision import autocast_type
from training.encoder.rows import Rows
from training.encoder.watch import Interrupted, Step, unwatched

if TYPE_CHECKING:
    from accelerate import Accelerator


class _Heads(nn.Module):
    """All heads in one call, because only calls are shared out between processes."""

    def __init__(self, network: LengthNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, mask: Tensor, models: Tensor) -> dict[str, Tensor]:
        return self.network.read(self.network.pooled(ids, mask), models)


@dataclass(slots=True)
class Loop:
    """Trains ``network`` on ``rows`` by ``objective`` and keeps the weights that order ``held``
    best.

    All chance comes from the seed and the number of the step, and the rate from the number of the
    step: weights, the optimiser's memory and the number are all there is to a run, and a run that
    goes on from a checkpoint does what it would have done. ``identity`` is what it follows from.
    """

    network: LengthNetwork
    objective: Objective
    rows: Rows
    held: Rows
    pad: int
    config: EncoderConfig
    accelerator: Accelerator
    identity: Mapping[str, object]
    path: Path | None = None
    watch: Callable[[Step], None] = unwatched
    clock: Callable[[], float] = time.monotonic
    course: Course = field(default_factory=Course)
    _best: dict[str, Tensor] = field(default_factory=dict)

    def run(self) -> Course:
        """Train to the end, or on from the checkpoint at ``path``; ``network`` then holds the best
        weights. Raises ``ValueError`` for a checkpoint of another run, and :class:`Interrupted` on
        Ctrl-C, the last checkpoint left in place.
        """
        self.network.to(self.accelerator.device)
        optimizer = make_optimizer(self.network, self.config)
        self._resume(optimizer)
        heads = self.accelerator.prepare_model(_Heads(self.network))
        try:
            self._train(heads, optimizer)
        except KeyboardInterrupt:
            raise Interrupted(self._how_to_go_on()) from None
        self._load(self._best)
        self.network.eval()
        return self.course

    @property
    def per_epoch(self) -> int:
        return -(-len(self.rows) // self.config.batch)

    @property
    def steps(self) -> int:
        return self.per_epoch * self.config.epochs

    def _train(self, heads: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        course, config = self.course, self.config
        # An epoch is evaluated at its end, and as often in between as asked for.
        every = max(1, -(-self.per_epoch // config.evaluations))
        sizes, epoch, batches = self.rows.sizes, -1, list[Index]()
        first, start = course.step, self.clock()
        while course.step < self.steps and course.worse_since_best < config.patience:
            number, within = divmod(course.step, self.per_epoch)
            if number != epoch:
                epoch, batches = number, epoch_batches(sizes, config.batch, config.seed, number)
            set_rates(optimizer, course.step, self.steps, config.warm_up)
            losses = self._step(heads, optimizer, batches[within])
            course.step += 1
            course.losses.append(losses.pop(""))
            tau = None
            if (within + 1) % every == 0 or within + 1 == self.per_epoch:
                tau = self._evaluate()
            done = course.step == self.steps or course.worse_since_best >= config.patience
            if done or course.step % config.checkpoint_every == 0:
                self._save(optimizer)
            pace = (self.clock() - start) / (course.step - first)
            left = 0.0 if done else pace * (self.steps - course.step)
            self.watch(Step(course.step, self.steps, course.losses[-1], losses, tau, left))

    def _step(
        self, heads: nn.Module, optimizer: torch.optim.Optimizer, index: Index
    ) -> dict[str, float]:
        """Learn from one batch; its losses by name, their sum under the empty name."""
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        chance = np.random.SeedSequence((self.config.seed, self.course.step, process))
        torch.manual_seed(int(chance.generate_state(1)[0]))
        parts = [share(index, i, processes) for i in range(processes)]
        heads.train()
        seen = self._unnamed(inputs(self.rows, parts[process], self.pad, self.accelerator.device))
        with self._autocast():
            out = heads(seen.ids, seen.mask, seen.models)
        # A list is compared as a whole, whoever read its prompts. A set has another order in each
        # process, and what one gathers the other must gather too.
        whole = {name: self._gathered(out[name]) for name in sorted(self.config.losses.heads)}
        batch = lengths(self.rows, np.concatenate(parts), self.accelerator.device)
        losses = self.objective.losses(whole, batch)
        loss = self.objective.total(losses)
        if not torch.isfinite(loss):
            raise ValueError(
                f"the loss is not finite at step {self.course.step + 1}; lower "
                f"encoder.learning_rate or encoder.head_learning_rate"
            )
        optimizer.zero_grad()
        # Each process holds the gradient of its own prompts; their mean, times their number, is
        # that of the batch.
        self.accelerator.backward(loss * processes)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)
        optimizer.step()
        return {"": float(loss.detach())} | {k: float(v.detach()) for k, v in losses.items()}

    def _unnamed(self, seen: Inputs) -> Inputs:
        """Some rows without the name of their served model, so that the network knows what to say
        of one that it was never told about."""
        if not self.network.models:
            return seen
        named = torch.rand(len(seen.models)) >= self.config.unknown_share
        return Inputs(seen.ids, seen.mask, seen.models * named.to(seen.models.device))

    def _gathered(self, out: Tensor) -> Tensor:
        """Of all processes, one after the other; the gradient flows to this one's."""
        processes = self.accelerator.num_processes
        if processes == 1:
            return out
        parts = list(self.accelerator.gather(out.detach()).chunk(processes))
        parts[self.accelerator.process_index] = out
        return torch.cat(parts)

    @torch.no_grad()
    def _evaluate(self) -> float:
        """Tau of the scores of ``held``; the best weights are kept."""
        self.network.eval()
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        scores = torch.zeros(len(self.held))
        for index in sorted_batches(self.held.sizes, 2 * self.config.batch):
            parts = [share(index, i, processes) for i in range(processes)]
            seen = inputs(self.held, parts[process], self.pad, self.accelerator.device)
            with self._autocast():
                out = self.network.read(self.network.pooled(seen.ids, seen.mask), seen.models)
            score = SCORES[self.network.score_head](out[self.network.score_head])
            there = np.concatenate(parts)
            scores[there[there >= 0]] = self.accelerator.gather(score).cpu()[there >= 0]
        row, draw = np.nonzero(self.held.mask)
        told = order(
            scores.numpy()[row],
            self.held.tokens[row, draw],
            self.held.censored[row, draw],
            resamples=0,
        )
        # Scores that are all the same order nothing.
        tau = told.tau if np.isfinite(told.tau) else 0.0
        self.course.taus.append((self.course.step, tau))
        if self.course.worse_since_best == 0:
            self._best = {name: value.clone() for name, value in self._weights().items()}
        return tau

    def _autocast(self) -> torch.autocast:
        device = self.accelerator.device
        kind = autocast_type(self.config.precision, device)
        return torch.autocast(device.type, kind or torch.bfloat16, enabled=kind is not None)

    def _weights(self) -> dict[str, Tensor]:
        """What may change in the network."""
        named = self.network.named_parameters()
        return {name: weight.detach() for name, weight in named if weight.requires_grad}

    @torch.no_grad()
    def _load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, weight in self._weights().items():
            weight.copy_(tensors[name])

    def _save(self, optimizer: torch.optim.Optimizer) -> None:
        if self.path is None or not self.accelerator.is_main_process:
            return
        groups = {
            "weights": self._weights(),
            "best": self._best,
            "optimizer": state_tensors(self.network, optimizer),
        }
        named = {f"{kind}:{k}": v for kind, group in groups.items() for k, v in group.items()}
        checkpoint.save(self.path, self.course, self.identity, named)

    def _resume(self, optimizer: torch.optim.Optimizer) -> None:
        found = checkpoint.load(self.path, self.identity) if self.path else None
        if found is None:
            return
        self.course, named = found
        groups: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "optimizer": {}}
        for name, tensor in named.items():
            kind, _, rest = name.partition(":")
            groups[kind][rest] = tensor
        self._load(groups["weights"])
        self._best = groups["best"]
        restore_state(self.network, optimizer, groups["optimizer"])

    def _how_to_go_on(self) -> str:
        at = f"training stopped at step {self.course.step} of {self.steps}"
        if self.path is None or not self.path.exists():
            return f"{at}; there is no checkpoint to go on from"
        kept = self.course.step // self.config.checkpoint_every * self.config.checkpoint_every
        return f"{at}; run the same command again to go on from step {kept} ({self.path})"
