"""A registry in memory and rankers whose orders are as good as a test wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ranker.types import FinishReason, Forecast
from training.gate import BurstConfig, GateConfig, seen
from training.sources import Data, Example

QUICK = GateConfig(resamples=100, bursts=BurstConfig(bursts=4, requests=60))


def invented(rows: int, seed: int = 0, model: str = "toy") -> Data:
    """Lengths are lognormal and known from the prompt; a third has code in it, a tenth is cut."""
    rng = np.random.default_rng(seed)
    examples = []
    for i in range(rows):
        tokens = int(rng.lognormal(4.0, 1.0)) + 1
        cut = i % 10 == 0
        examples.append(
            Example(
                prompt=f"{'def f(x): ' if i % 3 == 0 else ''}question {i} {'x' * (i % 7)}",
                output_tokens=tokens // 2 + 1 if cut else tokens,
                finish_reason=FinishReason.LENGTH if cut else FinishReason.STOP,
                model=model,
                id=str(i),
                split=("train", "validation")[i % 2],
                prompt_tokens=10,
            )
        )
    return Data("toys", "made up", tuple(examples))


@dataclass
class Guesser:
    """Scores are log lengths plus ``noise``, more of it where code is. Quantiles are those of all
    lengths, times ``stretch``."""

    data: Data
    noise: float = 1.0
    noise_on_code: float = 0.0
    stretch: float = 1.0

    def forecast(self, prompts, served_model=""):
        tokens = {e.prompt: e.output_tokens for e in self.data.examples}
        levels = (0.1, 0.5, 0.9)
        all_lengths = np.quantile(list(tokens.values()), levels) * self.stretch
        found = []
        for i, prompt in enumerate(prompts):
            wobble = math.sin(12.9898 * (i + 1)) * 2.0
            extra = self.noise_on_code if "def " in prompt else 0.0
            score = math.log(tokens[prompt]) + (self.noise + extra) * wobble
            found.append(Forecast(score, tuple(all_lengths), "guess", "1", levels))
        return found


@dataclass
class Shelf:
    """What the gate asks of a registry. ``before_tag`` is called before a tag is set."""

    data: Data
    rankers: dict[str, object] = field(default_factory=dict)
    trained_on: dict[str, bytes | None] = field(default_factory=dict)
    told: dict[str, dict[str, str]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict] = field(default_factory=dict)
    before_tag: object = None

    def add(self, ranker, data: Data | None = None) -> str:
        data = data or self.data
        version = str(len(self.rankers) + 1)
        self.rankers[version] = ranker
        self.trained_on[version] = seen(data.examples)
        self.told[version] = {
            "served_model": data.examples[0].model,
            "validation_digest": data.digest("validation"),
        }
        return version

    def resolve(self, name, alias):
        return self.aliases.get(alias)

    def versions(self, name):
        return sorted(self.rankers, key=int, reverse=True)

    def set_alias(self, name, alias, version):
        self.aliases[alias] = version

    def tags(self, name):
        return dict(self.kept)

    def set_tag(self, name, key, value):
        if self.before_tag is not None:
            hook, self.before_tag = self.before_tag, None
            hook()
        self.kept[key] = value

    def run_tags(self, name, version):
        return self.told[version]

    def attach(self, name, version, path, value):
        self.files[f"{version}/{path}"] = dict(value)

    def attached(self, name, version, path):
        return self.trained_on[version]

    def load(self, uri):
        found = self.rankers[uri.rpartition("/")[2]]
        if isinstance(found, Exception):
            raise found
        return found
