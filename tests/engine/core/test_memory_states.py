"""Random lives of requests in memory, with an executor that remembers what each block holds.

Keys and values of a position depend on every token up to it, so the model writes the whole prefix
into each slot. Each step then reads all that its request has computed: whatever was evicted,
shared, copied or swapped wrongly shows up as another prefix.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from engine.core.config import SchedulerConfig
from engine.core.memory import Memory
from engine.core.plan import Move
from engine.core.request import Request, Status

GARBAGE = "written by a step that failed"
TEXTS = ((0,) * 16, (0, 1) * 8)  # prompts begin with a piece of one of these
ACTIONS = st.lists(
    st.sampled_from(
        ["submit", "submit", "twin", "twin", "drop", "swap", "swap", "pause", "abort"]
        + ["drop_waiting"]
        + ["come"] * 8
    ),
    min_size=4,
    max_size=16,
)


@dataclass(eq=False)
class Life:
    """A request and the tokens it will have been, were it never cut off."""

    request: Request
    tokens: tuple[int, ...]
    hashes: list[int]  # of every full block of those
    told: str  # when the caller tells hashes: ahead, in time, late, or never

    def tell(self, block_size: int) -> None:
        if self.told != "never":
            known = self.request.total_tokens // block_size - (self.told == "late")
            self.request.block_hashes = self.hashes[: max(0, known)]
        if self.told == "ahead":
            self.request.block_hashes = self.hashes


@dataclass
class Moves:
    out: list[Move] = field(default_factory=list)
    back: list[Move] = field(default_factory=list)
    copies: list[Move] = field(default_factory=list)


class Lives(RuleBasedStateMachine):
    @initialize(
        blocks=st.integers(2, 24),
        block_size=st.integers(1, 4),
        host_blocks=st.sampled_from([0, 4, 8, 16]),
        prefix_cache=st.sampled_from([True] * 5 + [False]),
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
        self.fresh: set[Request] = set()  # came in with the plan being made
        self.sources: set[int] = set()  # kept because a copy of that plan reads them
        self.count = 0

    @rule(data=st.data(), actions=ACTIONS, copies_first=st.booleans(), late=st.booleans())
    def plan(self, data, actions, copies_first, late):
        """Decide something, carry it out with a step, commit. ``late``: somebody is aborted after
        the plan was made, which is carried out all the same."""
        for action in actions:
            getattr(self, action)(data)
            self.check()
        steps = self.grow(data)
        self.check()
        if late and self.lives:
            self.end(data.draw(st.sampled_from(self.lives), label="aborted late"))
            self.check()
        self.move(copies_first)
        for life, end, failed in self.run_steps(data, steps):
            if life in self.lives:
                self.commit(life, end, failed)
                self.check()
        self.fresh.clear()
        self.sources.clear()
        self.memory.settle()
        self.check()

    # -- decisions -------------------------------------------------------------------------------

    def submit(self, data):
        text = data.draw(st.sampled_from(TEXTS), label="text")
        own = data.draw(st.sampled_from([(), (), (0,), (1, 1)]), label="own")
        # Often a multiple of every block size: hits are full then.
        piece = text[: data.draw(st.sampled_from([12, 12, 12, 8, 1, 5, 16]), label="piece")]
        self.enter(data, (*piece, *own))

    def twin(self, data):
        """The prompt of another once more, or its next turn."""
        if self.lives:
            other = data.draw(st.sampled_from(self.lives))
            turn = other.request.total_tokens if data.draw(st.booleans(), label="turn") else 0
            self.enter(data, other.tokens[: max(turn, other.request.prompt_tokens)])

    def enter(self, data, prompt):
        size = self.config.block_size
        prompt = prompt[: max(1, self.config.capacity - 1)]
        answer = data.draw(st.integers(1, 9), label="answer")
        tokens = prompt + tuple(i % 2 for i in range(answer))
        hashes = [
            self.names.setdefault(tokens[:end], len(self.names))
            for end in range(size, len(tokens) + 1, size)
        ]
        told = data.draw(st.sampled_from(["ahead", "ahead", "in time", "late", "never"]))
        life = Life(Request(str(self.count), 0.0, len(prompt)), tokens, hashes, told)
        life.tell(size)
        self.count += 1
        self.lives.append(life)
        self.memory.want(life.request)

    def come(self, data):
        life = self.pick(data, Status.WAITING)
        if life is None:
            return
        request, memory = life.request, self.memory
        need, free = memory.admission_need(request), memory.free
        come = memory.swap_in if request.host_blocks else memory.admit
        if need > free:
            before = (request.block_table, request.host_blocks, request.computed_tokens)
            with pytest.raises(ValueError, match="are free"):
                come(request)
            assert before == (request.block_table, request.host_blocks, request.computed_tokens)
            assert memory.free == free
            return
        kept = request.block_table or request.host_blocks
        computed = request.computed_tokens if kept else memory.cached(request)
        moved = come(request)
        memory.unwant(request)
        assert memory.free == free - need
        assert request.computed_tokens == computed < request.total_tokens
        assert len(request.block_table) >= memory.blocks_for(request.total_tokens)
        if come == memory.swap_in:
            self.moves.back += moved
        elif moved:
            self.moves.copies.append(moved)
            self.sources.add(moved.source)
        request.status = Status.RUNNING
        self.fresh.add(request)

    def drop(self, data):
        self.preempt(data, self.memory.drop)

    def pause(self, data):
        self.preempt(data, lambda request: None)

    def swap(self, data):
        def swap_out(request):
            computed = request.computed_tokens
            self.moves.out += self.memory.swap_out(request)
            assert (request.block_table, request.computed_tokens) == ((), computed)

        self.preempt(data, swap_out)

    def preempt(self, data, method):
        life = self.pick(data, Status.RUNNING)
        if life is None or life.request in self.fresh:
            return
        request, memory = life.request, self.memory
        free, exclusive = memory.free, memory.exclusive(request)
        if method != memory.drop and not memory.can_swap_out(request):
            with pytest.raises(ValueError, match="can_swap_out"):
                memory.swap_out(request)
            method = memory.drop
        method(request)
        assert memory.free == free + (0 if request.block_table else exclusive)
        request.status = Status.WAITING
        request.preemptions += 1
        memory.want(request)

    def drop_waiting(self, data):
        life = self.pick(data, Status.WAITING)
        if life is not None:
            self.memory.drop(life.request)
            assert life.request.computed_tokens == 0

    def abort(self, data):
        lives = [life for life in self.lives if life.request not in self.fresh]
        if lives:
            self.end(data.draw(st.sampled_from(lives)))

    def pick(self, data, status):
        lives = [life for life in self.lives if life.request.status is status]
        return data.draw(st.sampled_from(lives)) if lives else None

    def end(self, life):
        self.memory.forget(life.request)
        self.lives.remove(life)
        assert life.request.block_table == life.request.host_blocks == ()

    # -- the step --------------------------------------------------------------------------------

    def grow(self, data):
        """Blocks for what each running request computes: (life, start, end, table)."""
        steps = []
        for life in self.lives:
            request = life.request
            if request.status is not Status.RUNNING:
                continue
            chunk = request.pending_tokens
            if data.draw(st.integers(0, 4), label="a part only") == 4:
                chunk = data.draw(st.integers(0, chunk), label="chunk")
            end = request.computed_tokens + chunk
            if chunk and self.memory.missing(request, end) <= self.memory.free:
                self.memory.grow(request, end)
                steps.append((life, request.computed_tokens, end, request.block_table))
        return steps

    def move(self, copies_first):
        moves, self.moves = self.moves, Moves()
        for source, target in moves.out:
            self.host[target] = list(self.device[source])
        swaps = [(self.host, move) for move in moves.back]
        copies = [(self.device, move) for move in moves.copies]
        for pool, (source, target) in [*copies, *swaps] if copies_first else [*swaps, *copies]:
            self.device[target] = list(pool[source])

    def run_steps(self, data, steps):
        """Write what each computes, then read what each attends to: (life, end, failed)."""
        size = self.config.block_size
        done = []
        for life, start, end, table in steps:
            failed = data.draw(st.integers(0, 9), label="fails") == 9
            done.append((life, end, failed))
            for position in range(start, end):
                block = table[position // size]
                others = (other for other in self.lives if other is not life)
                held = any(block in other.request.block_table for other in others)
                assert not held, "written while others hold it"
                self.device[block][position % size] = (
                    GARBAGE if failed else life.tokens[: position + 1]
                )
        for (life, _, end, table), (_, _, failed) in zip(steps, done, strict=True):
            for position in range(0 if failed else end):
                found = self.device[table[position // size]][position % size]
                assert found == life.tokens[: position + 1]
        return done

    def commit(self, life, end, failed):
        request = life.request
        if failed:
            self.end(life)
            return
        request.output_tokens += end == request.total_tokens
        request.computed_tokens = end
        life.tell(self.config.block_size)
        self.memory.record(request)
        if request.total_tokens > min(len(life.tokens), self.config.capacity):
            self.end(life)

    # -- what always holds -----------------------------------------------------------------------

    def check(self):
        self.memory.check_integrity(life.request for life in self.lives)
        held = {block for life in self.lives for block in life.request.block_table}
        assert self.memory.free == self.config.num_blocks - len(held | self.sources)

    def teardown(self):
        if hasattr(self, "memory"):
            for life in list(self.lives):
                self.end(life)
            self.memory.settle()
            self.memory.check_integrity([])
            assert (self.memory.free, self.memory.usage) == (self.config.num_blocks, 0.0)


Lives.TestCase.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
TestLives = Lives.TestCase
