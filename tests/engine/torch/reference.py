"""What the engine's tokens are held against, and the prompts and schedules they come from."""

import random
from dataclasses import dataclass

import torch

from engine.core.config import AdmissionConfig, AdmissionMode
from engine.core.scheduler import SchedulerConfig
from training import sharegpt
from training.split import TRAIN

#: Logits this close, relative to the higher, are equal within float32's rounding of a whole model:
#: which is the higher depends on the order of sums.
TIE = 1e-4
ROOMY = SchedulerConfig(max_num_seqs=32, max_num_batched_tokens=4096, block_size=16, num_blocks=400)
#: Too few blocks for all, and prompts that need several steps.
TIGHT = SchedulerConfig(
    max_num_seqs=32,
    max_num_batched_tokens=40,
    block_size=8,
    num_blocks=60,
    admission=AdmissionConfig(AdmissionMode.OFF),
)


def random_prompts(count, vocabulary, low, high, seed=0):
    draw = random.Random(seed)
    return {
        f"p{i}": [draw.randrange(3, vocabulary) for _ in range(draw.randint(low, high))]
        for i in range(count)
    }


def reference(network, prompts, tokens):
    """Greedy tokens of each prompt generated alone by transformers."""
    out = {}
    for name, ids in prompts.items():
        row = torch.tensor([ids], device=network.device)
        generated = network.generate(
            row, attention_mask=torch.ones_like(row), max_new_tokens=tokens, do_sample=False
        )
        out[name] = generated[0, len(ids) :].tolist()
    return out


def real_prompts(count, encode, shortest, longest, vocabulary=None):
    """Tokens of ``count`` first messages of ShareGPT users, of ``shortest`` to ``longest`` tokens.

    ``vocabulary``: token ids are taken modulo it, for models that know few. Their text stays in
    the package that it came with.
    """
    found = {}
    for turn, _ in sharegpt._turns(sharegpt.find_file()):
        if turn.split != TRAIN or turn.depth or len(turn.prompt) > 8 * longest:
            continue
        ids = encode(turn.prompt)
        if shortest <= len(ids) <= longest:
            found[f"p{len(found)}"] = [i % vocabulary for i in ids] if vocabulary else ids
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} prompts of that size")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``differ``: for each request whose tokens are not the network's, the first such step and how
    far its logit lies below the highest, relative to that. ``close``: requests with a step whose
    two highest logits are that close to each other, whether or not they differ."""

    differ: dict[str, tuple[int, float]]
    close: set[str]

    @property
    def wrong(self):
        """Those that differ where the network itself was not undecided."""
        return {name: at for name, at in self.differ.items() if at[1] >= TIE}


@torch.inference_mode()
def judge(network, prompts, tokens):
    """Hold greedy ``tokens`` against the network's choice after each of them.

    A token that is the highest of the logits behind prompt and output before it, at every step,
    makes the output what greedy decoding gives: by induction, in one pass instead of one a token.
    """
    differ, close = {}, set()
    for name, ids in prompts.items():
        row = torch.tensor([ids + tokens[name]], device=network.device)
        count = len(tokens[name])
        logits = network(row, logits_to_keep=count + 1, use_cache=False).logits[0, :-1].float()
        best = logits.topk(2).values
        if ((best[:, 0] - best[:, 1]) / best[:, 0].abs()).min() < TIE:
            close.add(name)
        chosen = logits.gather(1, row[0, -count:, None])[:, 0]
        gaps = ((best[:, 0] - chosen) / best[:, 0].abs()).tolist()
        wrong = [step for step in range(count) if gaps[step] > 0]
        if wrong:
            differ[name] = (wrong[0], gaps[wrong[0]])
    return Verdict(differ, close)
