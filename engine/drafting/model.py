"""A small model that writes ahead of the large one, with keys and values of its own."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from engine.core.plan import Plan, Step
from engine.cuda.buckets import Buckets
from engine.drafting.drafter import Wanted
from engine.models import Model
from engine.runner import Runner
from engine.sampler_draw import argmax


@dataclass(frozen=True, slots=True)
class DraftModelConfig:
    """num_blocks, block_size: of the draft model's own KV cache. prefill_tokens: tokens of prompts
    that it reads in one call at most; who is not read to the end gets no drafts yet.

    Raises ``ValueError`` naming the field.
    """

    num_blocks: int
    block_size: int = 32
    prefill_tokens: int = 512

    def __post_init__(self) -> None:
        for name in ("num_blocks", "block_size", "prefill_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"draft_model.{name} must be >= 1, got {getattr(self, name)}")


@dataclass(slots=True)
class _Held:
    """Of one request: ``computed`` tokens are in the cache, and ``ahead`` behind them, which were
    guesses."""

    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    ahead: list[int] = field(default_factory=list)

    def settle(self, tokens: Seq[int]) -> None:
        """Keep of the guesses those that came true; the others will be overwritten."""
        for guess in self.ahead:
            if self.computed == len(tokens) or tokens[self.computed] != guess:
                break
            self.computed += 1
        # The newest token is computed anew in any case: what would follow it is not kept.
        self.computed = min(self.computed, len(tokens) - 1)
        self.ahead = []


@dataclass(slots=True)
class _Line:
    """A request in one call: ``known`` tokens and guesses behind, the first ``computed`` of which
    are in the cache."""

    id: str
    held: _Held
    tokens: list[int]
    known: int
    most: int
    computed: int

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.computed

    @property
    def guesses(self) -> list[int]:
        return self.tokens[self.known :]


class ModelDrafter:
    """A :class:`~engine.drafting.drafter.Drafter` that asks ``model`` for its likeliest tokens.

    It knows nothing of preemption, prefixes or swaps: it keeps what it computed of a request until
    that is forgotten, or until others need the blocks and it was asked for longest ago.
    ``buckets``: its passes that become CUDA graphs, on a GPU.
    """

    def __init__(
        self, model: Model, config: DraftModelConfig, buckets: Buckets | None = None
    ) -> None:
        self._config = config
        self._window = model.context_length
        shape = model.kv_shape(config.num_blocks, config.block_size)
        self._runner = Runner(model, shape, buckets=buckets)
        self._free = list(range(config.num_blocks))
        self._held: dict[str, _Held] = {}  # least recently asked for first

    def propose(self, wanted: Seq[Wanted]) -> list[list[int]]:
        asked = {each.sequence.id for each in wanted}
        lines = [line for each in wanted if (line := self._line(each, asked)) is not None]
        going = lines
        while going:
            going = [each for each in self._advance(going) if len(each.guesses) < each.most]
        for line in lines:
            line.held.computed = min(line.computed, line.known)
            line.held.ahead = line.tokens[line.known : line.computed]
        found = {line.id: line.guesses for line in lines}
        return [found.get(each.sequence.id, []) for each in wanted]

    def forget(self, request_id: str) -> None:
        held = self._held.pop(request_id, None)
        if held is not None:
            self._free += held.blocks

    def _line(self, wanted: Wanted, asked: set[str]) -> _Line | None:
        """``None`` when it does not fit into the cache or the model's window."""
        name, tokens = wanted.sequence.id, wanted.sequence.tokens
        held = self._held.pop(name) if name in self._held else _Held()
        self._held[name] = held
        held.settle(tokens)
        most = min(wanted.most, self._window - len(tokens))
        if most < 1:
            return None
        # The last guess is not computed: nothing comes after it.
        need = -(-(len(tokens) + most - 1) // self._config.block_size) - len(held.blocks)
        while len(self._free) < need:
            idle = next((other for other in self._held if other not in asked), None)
            if idle is None:
                return None
            self.forget(idle)
        held.blocks += [self._free.pop() for _ in range(need)]
        return _Line(name, held, list(tokens), len(tokens), most, held.computed)

    def _advance(self, lines: list[_Line]) -> list[_Line]:
        """One pass: those that are read to their end, with one more guess each."""
        budget, steps, ready = self._config.prefill_tokens, [], []
        for line in sorted(lines, key=lambda line: line.pending):
            count = min(line.pending, budget)
            if not count:
                break
            samples = count == line.pending
            steps.append(Step(line.id, line.computed, count, tuple(line.held.blocks), samples))
            line.computed += count
            budget -= count
            if samples:
                ready.append(line)
        names, logits = self._runner.run(
            Plan(0, tuple(steps)), {line.id: line.tokens for line in lines}
        )
        if ready:
            guesses = dict(zip(names, argmax(logits).tolist(), strict=True))
            for line in ready:
                line.tokens.append(guesses[line.id])
        return ready


def check_same_tokens(model: Model, draft: Model) -> None:
    """Raise ``ValueError`` unless ``draft`` means by a token what ``model`` does."""
    sizes = model.config.vocab_size, draft.config.vocab_size
    pieces = [_pieces(each) for each in (model, draft)]
    if sizes[0] != sizes[1] or pieces[0] != pieces[1]:
        raise ValueError(
            f"draft_model: {draft.name} and {model.name} must share one tokenizer; they have "
            f"{sizes[1]} and {sizes[0]} tokens" + (", which differ" if sizes[0] == sizes[1] else "")
        )


def _pieces(model: Model) -> object:
    """What each token of a tokenizer stands for, where it says so."""
    vocabulary = getattr(model.tokenizer, "get_vocab", None)
    return vocabulary() if vocabulary else None
