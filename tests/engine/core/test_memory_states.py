"""Random lives of requests in memory, with an executor that remembers what each block holds.

Keys and values of a position depend on every token up to it, so the model writes the whole prefix
into each slot. Each step then reads all that its request has computed: whatever was evicted,
shared, copied or swapped wrongly shows up as another prefix.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.core.config import SchedulerConfig
from engine.core.memory import Memory
from engine.core.plan import Move
from engine.core.request import Request, Status

GARBAGE = "written by a step that failed"


@dataclass(eq=False)
class Life:
    """A request and the tokens it will have been, were it never cut off."""

    request: Request
    tokens: tuple[int, ...]
    hashes: list[int]  # of every full block of those
    told: str  # when the caller tells hashes: ahead, in time, or never

    def tell(self, block_size: int) -> None:
        if self.told == "in time":
            known = self.request.total_tokens // block_size
            self.request.block_hashes = self.hashes[:known]


@dataclass
class Moves:
    out: list[Move] = field(default_factory=list)
    back: list[Move] = field(default_factory=list)
    copies: list[Move] = field(default_factory=list)


class Lives(RuleBasedStateMachine):
    @initialize(
        blocks=st.integers(2, 12),
        block_size=st.integers(1, 4),
        host_blocks=st.integers(0, 8),
        prefix_cache=st.sampled_from([True, True, True, False]),
    )
    def build(self, blocks, block_size, host_blocks, prefix_cache):
        self.config = SchedulerConfig(
            8, 64, block_size, blocks, host_blocks=host_blocks, prefix_cache=prefix_cache
        )
        self.memory = Memory(self.config)
        self.device = [[None] * block_size for _ in range(blocks)]
        self.host = [[None] * block_size for _ in range(host_blocks)]
        self.names: dict[tuple[int, ...], int] = {}
        self.lives: list[Life] = []
        self.moves = Moves()
        self.fresh: set[Request] = set()  # admitted in the plan being made
        self.count = 0

    # -- helpers ---------------------------------------------------------------------------------

    def pick(self, data, lives):
        return data.draw(st.sampled_from(lives)) if lives else None

    def waiting(self):
        return [life for life in self.lives if life.request.status is Status.WAITING]

    def running(self):
        return [life for life in self.lives if life.request.status is Status.RUNNING]

    def victims(self):
        return [life for life in self.running() if life.request not in self.fresh]

    def end(self, life):
        self.memory.forget(life.request)
        self.lives.remove(life)
        assert life.request.block_table == life.request.host_blocks == ()

    # -- rules -----------------------------------------------------------------------------------

    @rule(
        data=st.data(),
        shared=st.integers(0, 16),
        own=st.lists(st.integers(0, 1), min_size=2, max_size=14),
        answer=st.integers(1, 10),
        told=st.sampled_from(["ahead", "ahead", "in time", "never"]),
    )
    def submit(self, data, shared, own, answer, told):
        other = self.pick(data, self.lives)
        start = other.tokens[:shared] if other else ()
        size = self.config.block_size
        tokens = (*start, *own)[: self.config.capacity + 1]
        prompt = max(1, min(len(tokens) - answer, self.config.capacity - 1))
        hashes = [
            self.names.setdefault(tokens[:end], len(self.names))
            for end in range(size, len(tokens) + 1, size)
        ]
        life = Life(Request(str(self.count), 0.0, prompt), tokens, hashes, told)
        if told == "ahead":
            life.request.block_hashes = hashes
        life.tell(size)
        self.count += 1
        self.lives.append(life)
        self.memory.want(life.request)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), unwant_first=st.booleans())
    def admit(self, data, unwant_first):
        life = self.pick(data, self.waiting())
        request = life.request
        need, free = self.memory.admission_need(request), self.memory.free
        swapped = bool(request.host_blocks)
        come = self.memory.swap_in if swapped else self.memory.admit
        if need > free:
            before = (request.block_table, request.host_blocks, request.computed_tokens)
            with pytest.raises(ValueError, match="are free"):
                come(request)
            assert before == (request.block_table, request.host_blocks, request.computed_tokens)
            assert self.memory.free == free
            return
        known = request.computed_tokens if request.block_table or swapped else None
        cached = self.memory.cached(request)
        if unwant_first:
            self.memory.unwant(request)
        moved = come(request)
        self.memory.unwant(request)
        assert self.memory.free == free - need
        assert request.computed_tokens == (cached if known is None else known)
        assert request.computed_tokens < request.total_tokens
        assert len(request.block_table) >= self.memory.blocks_for(request.total_tokens)
        if swapped:
            self.moves.back += moved
        elif moved:
            self.moves.copies.append(moved)
        request.status = Status.RUNNING
        self.fresh.add(request)

    @precondition(lambda self: self.victims())
    @rule(data=st.data(), method=st.sampled_from(["drop", "swap", "swap", "pause"]))
    def preempt(self, data, method):
        request = self.pick(data, self.victims()).request
        free, freed = self.memory.free, self.memory.exclusive(request)
        computed = request.computed_tokens
        if method == "drop":
            self.memory.drop(request)
            assert request.computed_tokens == 0
        elif method == "pause":
            freed = 0
        elif self.memory.can_swap_out(request):
            self.moves.out += self.memory.swap_out(request)
            assert (request.block_table, request.computed_tokens) == ((), computed)
        else:
            with pytest.raises(ValueError, match="can_swap_out"):
                self.memory.swap_out(request)
            return
        assert self.memory.free == free + freed
        request.status = Status.WAITING
        request.preemptions += 1
        self.memory.want(request)

    @precondition(lambda self: any(not life.request.status.value > 2 for life in self.lives))
    @rule(data=st.data())
    def drop_paused(self, data):
        paused = [life for life in self.waiting() if life.request.computed_tokens]
        life = self.pick(data, [life for life in paused if life.request not in self.fresh])
        if life:
            self.memory.drop(life.request)

    @precondition(lambda self: self.lives)
    @rule(data=st.data(), executed=st.booleans())
    def abort(self, data, executed):
        life = self.pick(data, self.lives)
        if life.request in self.fresh and not executed:
            return
        self.end(life)

    @rule(data=st.data(), copies_first=st.booleans())
    def step(self, data, copies_first):
        """Plan the steps, carry everything out, commit, and begin the next plan."""
        size = self.config.block_size
        planned = []
        for life in self.running():
            request = life.request
            chunk = data.draw(st.integers(0, request.pending_tokens), label="chunk")
            end = request.computed_tokens + chunk
            if chunk and self.memory.missing(request, end) <= self.memory.free:
                self.memory.grow(request, end)
                planned.append((life, request.computed_tokens, end, request.block_table))
        self.carry_out(copies_first)
        for _, start, end, table in planned:
            assert start < end <= len(table) * size
            for block in {table[position // size] for position in range(start, end)}:
                holders = sum(block in other.request.block_table for other in self.lives)
                assert holders == 1, "written while others hold it"
        failed = set()
        for life, start, end, table in planned:
            if data.draw(st.integers(0, 9), label="fails") == 0:
                failed.add(life)
            for position in range(start, end):
                block, slot = divmod(position, size)
                written = GARBAGE if life in failed else life.tokens[: position + 1]
                self.device[table[block]][slot] = written
        for life, _, end, table in planned:
            if life not in failed:
                for position in range(end):
                    block, slot = divmod(position, size)
                    assert self.device[table[block]][slot] == life.tokens[: position + 1]
        for life, _, end, _ in planned:
            self.commit(life, end, life in failed)
        self.fresh.clear()
        self.memory.settle()

    def carry_out(self, copies_first):
        moves, self.moves = self.moves, Moves()
        for source, target in moves.out:
            self.host[target] = list(self.device[source])
        for copies in (True, False) if copies_first else (False, True):
            source_pool = self.device if copies else self.host
            for source, target in moves.copies if copies else moves.back:
                self.device[target] = list(source_pool[source])

    def commit(self, life, end, failed):
        request = life.request
        if failed:
            self.end(life)
            return
        samples = end == request.total_tokens
        request.computed_tokens = end
        request.output_tokens += samples
        life.tell(self.config.block_size)
        self.memory.record(request)
        if request.total_tokens > min(len(life.tokens), self.config.capacity):
            self.end(life)

    @invariant()
    def sound(self):
        if not hasattr(self, "memory"):
            return
        self.memory.check_integrity(life.request for life in self.lives)
        held = {block for life in self.lives for block in life.request.block_table}
        assert self.memory.free <= self.config.num_blocks - len(held)

    def teardown(self):
        if hasattr(self, "memory"):
            for life in list(self.lives):
                self.end(life)
            self.memory.settle()
            self.memory.check_integrity([])
            assert (self.memory.free, self.memory.usage) == (self.config.num_blocks, 0.0)


Lives.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestLives = Lives.TestCase
