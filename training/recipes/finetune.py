"""One way to fine-tune the encoder for whatever a recipe asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from ranker.encoder.network import LengthNetwork
from ranker.encoder.text import EncoderText, padded
from training.encoder.backbone import load_encoder, load_tokenizer, locate
from training.encoder.batches import Index, epoch_batches, sorted_batches
from training.recipes.compare import Floats
from training.recipes.objective import Objective
from training.recipes.recipe import Setup


@dataclass(frozen=True, slots=True)
class Course:
    """How a recipe is trained: ``epochs`` through the whole network, then ``frozen`` ones of the
    head alone at ``head_rate``. ``hidden`` units stand in each of ``layers`` layers before the
    output; none makes it linear."""

    epochs: int = 5
    frozen: int = 0
    rate: float = 5e-5
    head_rate: float = 2.5e-4
    batch: int = 32
    layers: int = 0
    hidden: int = 128
    warm_up: float = 0.06
    clip: float = 1.0
    weight_decay: float = 0.01
    dropout: float = 0.1


class Reader:
    """A fine-tuned encoder with the head of a recipe: prompts in, outputs [n, width] out."""

    def __init__(self, setup: Setup, course: Course, width: int) -> None:
        torch.manual_seed(setup.seed)
        folder = locate() if setup.backbone is None else setup.backbone
        self.text = EncoderText(load_tokenizer(folder), setup.length)
        self.network = LengthNetwork(load_encoder(folder))
        sizes = [self.network.width, *[course.hidden] * course.layers]
        hidden = [
            layer
            for size, following in pairwise(sizes)
            for layer in (nn.Linear(size, following), nn.ReLU())
        ]
        self.head = nn.Sequential(nn.Dropout(course.dropout), *hidden, nn.Linear(sizes[-1], width))

    def pooled(self, ids: Sequence[list[int]]) -> Tensor:
        """What the encoder says of each prompt, ``[n, 2 * hidden size]``."""
        filled, mask = padded(ids, self.text.pad)
        with torch.autocast("cpu", torch.bfloat16):
            return self.network.pooled(torch.from_numpy(filled), torch.from_numpy(mask))

    @torch.no_grad()
    def read(self, ids: Sequence[list[int]], batch: int = 64) -> Tensor:
        """:meth:`pooled` of any number of prompts, without learning."""
        found = torch.empty(len(ids), self.network.width)
        for index in sorted_batches(_sizes(ids), batch):
            found[torch.from_numpy(index)] = self.pooled([ids[i] for i in index]).float()
        return found

    @torch.no_grad()
    def outputs(self, prompts: Sequence[str]) -> Floats:
        self.network.eval()
        self.head.eval()
        found: Floats = self.head(self.read(self.text.ids(prompts))).double().numpy()
        return found


def finetune(
    prompts: Sequence[str],
    tokens: Floats,
    objective: Objective,
    course: Course,
    setup: Setup,
    name: str,
) -> Reader:
    """Train on ``prompts`` with ``tokens`` output tokens each; AdamW, a linear rise and fall of
    the rate, gradients clipped, batches of prompts of similar size, as the rankers here are."""
    torch.set_num_threads(1)
    reader = Reader(setup, course, objective.width)
    ids = reader.text.ids(prompts)
    targets = torch.from_numpy(objective.targets(tokens)).float()
    epochs = course.epochs if setup.epochs is None else min(course.epochs, setup.epochs)
    batches = [
        b
        for epoch in range(epochs)
        for b in epoch_batches(_sizes(ids), course.batch, setup.seed, epoch)
        if len(b) > 1  # one row has no order
    ]
    rates = {reader.network: course.rate, reader.head: course.head_rate}
    stepper = _Stepper(rates, course, len(batches))
    for step, index in enumerate(batches):
        out = reader.head(reader.pooled([ids[i] for i in index]).float())
        stepper.step(objective.loss(out, targets[torch.from_numpy(index)]))
        setup.progress(f"Fine-tuning {name}", step + 1, len(batches))
    if course.frozen:
        _head_alone(reader, ids, targets, objective, course, setup.seed)
    return reader


def _head_alone(
    reader: Reader,
    ids: Sequence[list[int]],
    targets: Tensor,
    objective: Objective,
    course: Course,
    seed: int,
) -> None:
    """The last epochs of some papers: the encoder stands still, so it reads each prompt once."""
    reader.network.eval()
    states = reader.read(ids)
    batches = [
        b
        for epoch in range(course.frozen)
        for b in epoch_batches(_sizes(ids), course.batch, seed, course.epochs + epoch)
        if len(b) > 1
    ]
    stepper = _Stepper({reader.head: course.head_rate}, course, len(batches))
    for index in map(torch.from_numpy, batches):
        stepper.step(objective.loss(reader.head(states[index]), targets[index]))


class _Stepper:
    def __init__(self, rates: dict[nn.Module, float], course: Course, steps: int) -> None:
        parts = [
            (module, rate, [p for p in module.parameters() if p.requires_grad])
            for module, rate in rates.items()
        ]
        groups = [
            {"params": kept, "lr": rate, "weight_decay": decay}
            for _, rate, weights in parts
            for decay, kept in (
                (course.weight_decay, [p for p in weights if p.ndim > 1]),
                (0.0, [p for p in weights if p.ndim < 2]),
            )
        ]
        self.weights = [p for _, _, weights in parts for p in weights]
        self.clip = course.clip
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        rise = max(1, round(course.warm_up * steps))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda i: min(1.0, (i + 1) / rise) * max(0.0, 1.0 - i / max(1, steps))
        )

    def step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, self.clip)
        self.optimizer.step()
        self.schedule.step()


def _sizes(ids: Sequence[list[int]]) -> Index:
    return np.array([len(row) for row in ids], dtype=np.int64)
