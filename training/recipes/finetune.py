"""One way to fine-tune the encoder for whatever a recipe asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ranker.encoder.network import LengthNetwork
from ranker.encoder.text import EncoderText, padded
from training.encoder.backbone import load_encoder, load_tokenizer, locate
from training.encoder.batches import Index, epoch_batches, sorted_batches
from training.encoder.config import EncoderConfig
from training.encoder.optimizer import make_optimizer, set_rates
from training.encoder.precision import autocast_type
from training.recipes.compare import Floats
from training.recipes.objective import Objective
from training.recipes.recipe import Setup

_HEAD = "recipe"
_READ = 64  # prompts at a time, without learning
_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Head:
    """``layers`` hidden layers of ``units`` between the encoder and the outputs; none: linear."""

    layers: int = 0
    units: int = 128

    def build(self, inputs: int, outputs: int) -> nn.Module:
        parts: list[nn.Module] = []
        for _ in range(self.layers):
            parts += [nn.Linear(inputs, self.units), nn.ReLU()]
            inputs = self.units
        return nn.Sequential(*parts, nn.Linear(inputs, outputs))


@dataclass(frozen=True, slots=True)
class Reader:
    """A network with the head of a recipe, and the text it reads."""

    network: LengthNetwork
    text: EncoderText
    config: EncoderConfig

    @classmethod
    def fresh(cls, config: EncoderConfig, head: Head, width: int) -> Reader:
        """The backbone with a new head of ``width`` outputs; chance from the configuration."""
        torch.manual_seed(config.seed)
        folder = locate(config.backbone)
        network = LengthNetwork(load_encoder(folder), dropout=config.dropout)
        network.heads.requires_grad_(False)  # ours stand beside, unused
        network.heads[_HEAD] = head.build(network.width, width)
        text = EncoderText(load_tokenizer(folder), config.length, config.head_share)
        return cls(network, text, config)

    def states(self, ids: Sequence[list[int]]) -> Tensor:
        """What the encoder makes of each prompt, ``[n, 2 * hidden size]``."""
        filled, mask = map(torch.from_numpy, padded(ids, self.text.pad))
        kind = autocast_type(self.config.precision, _CPU)
        with torch.autocast("cpu", kind or torch.bfloat16, enabled=kind is not None):
            return self.network.pooled(filled, mask).float()

    def head(self, states: Tensor) -> Tensor:
        """Outputs ``[n, width]``."""
        found: Tensor = self.network.heads[_HEAD](self.network.dropout(states))
        return found

    @torch.no_grad()
    def all_states(self, ids: Sequence[list[int]]) -> Tensor:
        """:meth:`states` of any number of prompts, without learning."""
        self.network.eval()
        found = torch.empty(len(ids), self.network.width)
        for index in sorted_batches(_sizes(ids), _READ):
            found[torch.from_numpy(index)] = self.states([ids[i] for i in index])
        return found

    @torch.no_grad()
    def outputs(self, prompts: Sequence[str]) -> Floats:
        """Of each prompt, ``[n, width]``."""
        with _threads(self.config):
            found: Floats = self.head(self.all_states(self.text.ids(prompts))).double().numpy()
        return found


def finetune(
    prompts: Sequence[str],
    tokens: Floats,
    objective: Objective,
    head: Head,
    epochs: int,
    frozen: int,
    setup: Setup,
) -> Reader:
    """Train on ``prompts`` with ``tokens`` output tokens each: ``epochs`` through the whole
    network, then ``frozen`` of the head alone, as our own encoder is trained otherwise."""
    with _threads(setup.encoder):
        reader = Reader.fresh(setup.encoder, head, objective.width)
        ids = reader.text.ids(prompts)
        targets = torch.from_numpy(objective.targets(tokens)).float()

        def learn(read: Callable[[Index], Tensor], first: int, last: int, stage: str) -> None:
            config = setup.encoder
            batches = [
                batch
                for epoch in range(first, last)
                for batch in epoch_batches(_sizes(ids), config.batch, config.seed, epoch)
                if len(batch) > 1  # one row has no order
            ]
            optimizer = make_optimizer(reader.network, config)
            weights = [p for p in reader.network.parameters() if p.requires_grad]
            reader.network.train()
            for step, index in enumerate(batches):
                set_rates(optimizer, step, len(batches), config.warm_up)
                optimizer.zero_grad()
                loss = objective.loss(reader.head(read(index)), targets[torch.from_numpy(index)])
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(weights, config.clip)
                optimizer.step()
                setup.progress(stage, step + 1, len(batches))

        learn(lambda index: reader.states([ids[i] for i in index]), 0, epochs, "Fine-tuning")
        if frozen:
            reader.network.encoder.requires_grad_(False)
            states = reader.all_states(ids)  # it stands still, so each prompt is read once
            learn(
                lambda i: states[torch.from_numpy(i)], epochs, epochs + frozen, "Training the head"
            )
        return reader


@contextmanager
def _threads(config: EncoderConfig) -> Iterator[None]:
    """One thread unless more are set, so that results do not depend on the machine; torch
    afterwards as it was, for whoever trains next."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, config.threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _sizes(ids: Sequence[list[int]]) -> Index:
    return np.array([len(row) for row in ids], dtype=np.int64)
