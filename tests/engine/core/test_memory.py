import pytest

from engine.core.config import SchedulerConfig
from engine.core.memory import Memory, MemoryStats
from engine.core.plan import Move
from engine.core.request import Request


def build(num_blocks=10, block_size=4, **changes):
    return Memory(SchedulerConfig(8, 64, block_size, num_blocks, **changes))


def ask(tokens, *, text="a", block_size=4, name="r"):
    """A request of ``tokens`` tokens; those of one text begin alike."""
    hashes = [hash((text, end)) for end in range(block_size, tokens + 40, block_size)]
    return Request(name, 0.0, tokens, block_hashes=hashes)


def compute(memory, request, samples=1):
    """Run all that is known, as a committed step would."""
    request.computed_tokens = request.total_tokens
    request.output_tokens += samples
    memory.record(request)


def serve(memory, request):
    memory.admit(request)
    compute(memory, request)
    return request


def test_takes_blocks_as_tokens_come():
    memory, request = build(), Request("r", 0.0, 5)
    assert (memory.blocks_for(5), memory.admission_need(request)) == (2, 2)
    assert memory.admit(request) is None
    assert (len(request.block_table), memory.free, memory.usage) == (2, 8, 0.2)
    assert (memory.missing(request, 8), memory.missing(request, 9)) == (0, 1)
    memory.grow(request, 8)
    memory.grow(request, 9)
    assert len(request.block_table) == 3
    memory.forget(request)
    assert (request.block_table, memory.free) == ((), 10)


def test_refuses_what_is_not_free_and_changes_nothing():
    memory, request = build(2), Request("r", 0.0, 9)
    with pytest.raises(ValueError, match="needs 3 blocks, 2 are free"):
        memory.admit(request)
    assert (request.block_table, memory.free) == ((), 2)
    small = Request("s", 0.0, 4)
    memory.admit(small)
    with pytest.raises(ValueError, match="1 are free"):
        memory.grow(small, 13)
    assert len(small.block_table) == 1


def test_a_common_prefix_is_shared():
    memory = build()
    first = serve(memory, ask(10))
    second = ask(11)
    assert memory.cached(second) == 8
    assert memory.admission_need(second) == 1, "two of three blocks are held already"
    memory.admit(second)
    assert (second.computed_tokens, second.cached_tokens) == (8, 8)
    assert second.block_table[:2] == first.block_table[:2]
    assert (memory.free, memory.exclusive(first), memory.exclusive(second)) == (6, 1, 1)
    assert memory.exclusive(first, second) == 4, "what only the two share is theirs together"
    memory.forget(first)
    assert (memory.free, memory.exclusive(second)) == (7, 3)


def test_a_next_turn_finds_prompt_and_answer_of_the_last():
    memory = build()
    last = serve(memory, ask(6))
    last.output_tokens, last.computed_tokens = 3, 8
    memory.record(last)
    memory.forget(last)
    turn = ask(14)
    assert memory.cached(turn) == 8
    assert memory.admission_need(turn) == 4, "what nobody holds is free until it is held again"
    memory.admit(turn)
    assert turn.computed_tokens == 8


def test_only_full_computed_blocks_are_found():
    memory = build()
    first = ask(8)
    memory.admit(first)
    assert memory.cached(ask(9)) == 0, "nothing is computed yet"
    first.computed_tokens = 7
    memory.record(first)
    assert memory.cached(ask(9)) == 4
    first.computed_tokens = 8
    memory.record(first)
    assert memory.cached(ask(9)) == 8


def test_a_full_hit_leaves_the_last_token_and_copies_the_block_others_hold():
    memory = build()
    first = serve(memory, ask(8))
    second = ask(8, name="s")
    assert (memory.cached(second), memory.admission_need(second)) == (7, 1)
    move = memory.admit(second)
    assert move == Move(first.block_table[1], second.block_table[1])
    assert second.block_table[0] == first.block_table[0]
    assert second.computed_tokens == 7
    assert memory.stats.copied_blocks == 1


def test_what_a_copy_reads_outlives_its_holder_until_settled():
    memory = build(4)
    first = serve(memory, ask(8))
    move = memory.admit(ask(8, name="s"))
    memory.forget(first)
    taken = ask(4, text="b")
    memory.admit(taken)
    assert move.source not in taken.block_table
    assert memory.free == 0
    memory.settle()
    assert memory.free == 1


def test_a_full_hit_that_nobody_holds_is_written_in_place():
    memory = build()
    first = serve(memory, ask(8))
    table = first.block_table
    memory.forget(first)
    second = ask(8)
    assert memory.admission_need(second) == 2
    assert memory.admit(second) is None
    assert (second.block_table, second.computed_tokens) == (table, 7)
    assert memory.cached(ask(9)) == 4, "its last block is about to be written"
    compute(memory, second)
    assert memory.cached(ask(9)) == 8


def test_a_block_of_one_token_is_never_copied_for_nothing():
    memory = build(block_size=1)
    serve(memory, ask(3, block_size=1))
    second = ask(3, block_size=1)
    assert memory.admit(second) is None
    assert second.computed_tokens == 2


def test_twins_are_merged():
    memory = build()
    first, second = ask(9), ask(9, name="s")
    memory.admit(first)
    memory.admit(second)
    assert memory.free == 4
    compute(memory, first)
    compute(memory, second)
    assert second.block_table[:2] == first.block_table[:2]
    assert second.block_table[2] != first.block_table[2]
    assert memory.free == 6
    memory.check_integrity([first, second])


def test_a_resumed_request_does_not_flatter_the_hit_rate():
    memory = build()
    request = serve(memory, ask(9))
    assert memory.stats == MemoryStats(queried_tokens=9)
    memory.drop(request)
    assert request.computed_tokens == 0
    request.preemptions = 1
    memory.admit(request)
    assert (request.computed_tokens, request.cached_tokens) == (8, 0)
    assert memory.stats == MemoryStats(queried_tokens=9, resume_hit_tokens=8)
    memory.admit(ask(10, name="s"))
    assert memory.stats == MemoryStats(19, prefix_hit_tokens=8, resume_hit_tokens=8)


def test_without_hashes_or_cache_nothing_is_shared():
    for memory, make in [
        (build(prefix_cache=False), lambda: ask(8)),
        (build(), lambda: Request("r", 0.0, 8)),
    ]:
        first = serve(memory, make())
        second = make()
        memory.want(second)
        assert (memory.cached(second), memory.admission_need(second)) == (0, 2)
        memory.admit(second)
        assert not set(first.block_table) & set(second.block_table)
        memory.check_integrity([first, second])
    assert build(prefix_cache=False).stats == MemoryStats()


def test_a_paused_request_keeps_what_it_has():
    memory = build()
    request = serve(memory, ask(8))
    table = request.block_table
    assert memory.admission_need(request) == 1, "only the block of its new token"
    memory.admit(request)
    assert request.block_table[:2] == table
    assert (request.computed_tokens, memory.stats.queried_tokens) == (8, 8)


def test_blocks_that_waiting_requests_want_are_evicted_last():
    memory = build(4)
    memory.forget(serve(memory, ask(8, text="old")))
    memory.forget(serve(memory, ask(8, text="new")))
    waiting = ask(9, text="old")
    memory.want(waiting)
    memory.admit(ask(8, text="other"))
    assert (memory.cached(waiting), memory.cached(ask(9, text="new"))) == (8, 0)
    assert memory.stats.evicted_blocks == 2
    memory.unwant(waiting)
    memory.unwant(waiting)
    memory.admit(ask(4, text="another"))
    assert memory.cached(waiting) == 4, "tails go first"


def test_swapped_out_and_back():
    memory = build(host_blocks=3)
    request = serve(memory, Request("r", 0.0, 9))
    table = request.block_table
    moves = memory.swap_out(request)
    assert [move.source for move in moves] == list(table)
    assert [move.target for move in moves] == list(request.host_blocks)
    assert (request.block_table, request.computed_tokens, memory.free) == ((), 9, 10)
    assert memory.admission_need(request) == 3
    with pytest.raises(ValueError, match="swap it in"):
        memory.admit(request)
    kept = request.host_blocks
    moves = memory.swap_in(request)
    assert [move.source for move in moves] == list(kept)
    assert [move.target for move in moves] == list(request.block_table)
    assert (request.host_blocks, request.computed_tokens) == ((), 9)
    memory.check_integrity([request])
    with pytest.raises(ValueError, match="not swapped out"):
        memory.swap_in(request)


def test_only_what_is_computed_is_swapped():
    memory, request = build(host_blocks=1), Request("r", 0.0, 9)
    memory.admit(request)
    assert not memory.can_swap_out(request), "nothing is computed"
    request.computed_tokens = 3
    assert len(memory.swap_out(request)) == 1
    assert not memory.can_swap_out(request), "it is out"
    assert len(memory.swap_in(request)) == 1
    assert len(request.block_table) == 3
    request.computed_tokens = 5
    assert not memory.can_swap_out(request), "the host has one block, it needs two"
    with pytest.raises(ValueError, match="can_swap_out"):
        memory.swap_out(request)


def test_host_blocks_that_a_plan_reads_take_no_victim_of_that_plan():
    memory = build(host_blocks=2)
    first, second = (serve(memory, Request(name, 0.0, 6)) for name in "ab")
    memory.swap_out(first)
    memory.swap_in(first)
    assert not memory.can_swap_out(second)
    memory.settle()
    assert memory.can_swap_out(second)


def test_swapping_in_shares_what_is_still_cached():
    memory = build(host_blocks=4)
    request = serve(memory, ask(9))
    table = request.block_table
    memory.swap_out(request)
    neighbour = ask(9, name="s")
    memory.admit(neighbour)
    assert memory.admission_need(request) == 1
    moves = memory.swap_in(request)
    assert request.block_table[:2] == table[:2] == neighbour.block_table[:2]
    assert [move.target for move in moves] == [request.block_table[2]]
    memory.check_integrity([request, neighbour])


def test_what_is_swapped_in_is_found_once_it_arrived():
    memory = build(3, host_blocks=4)
    request = serve(memory, ask(8))
    memory.swap_out(request)
    memory.forget(serve(memory, Request("big", 0.0, 12)))  # evicts what was cached
    memory.swap_in(request)
    assert memory.cached(ask(9)) == 0
    compute(memory, request)
    assert memory.cached(ask(9)) == 8


def test_giving_up_a_swapped_out_request_frees_the_host():
    for end in (Memory.drop, Memory.forget):
        memory = build(host_blocks=2)
        request = serve(memory, Request("r", 0.0, 6))
        memory.swap_out(request)
        end(memory, request)
        assert request.host_blocks == ()
        other = serve(memory, Request("s", 0.0, 6))
        assert memory.can_swap_out(other)
        memory.check_integrity([other])


def corrupt(name, request):
    match name:
        case "leak":
            request.block_table = request.block_table[:-1]
        case "stolen":
            request.block_table = (*request.block_table, 9)
        case "twice":
            request.block_table = (*request.block_table[:-1], request.block_table[0])
        case "beyond":
            request.computed_tokens = 99
        case "swapped":
            request.host_blocks = (0,)
        case "other":
            request.block_hashes = [1, 2, 3]


@pytest.mark.parametrize("name", ["leak", "stolen", "twice", "beyond", "swapped", "other"])
def test_integrity_sees(name):
    memory = build(host_blocks=1)
    request = serve(memory, ask(9))
    memory.check_integrity([request])
    corrupt(name, request)
    with pytest.raises(RuntimeError):
        memory.check_integrity([request])


def test_integrity_sees_a_request_that_was_not_forgotten():
    memory, request = build(), ask(9)
    memory.want(request)
    memory.check_integrity([request])
    with pytest.raises(RuntimeError, match="remembered"):
        memory.check_integrity([])
    memory.forget(request)
    memory.check_integrity([])
