"""What was computed for one request serves another, and nobody can tell from the tokens."""

from dataclasses import replace

import pytest

from engine.sampling import SamplingParams
from tests.engine.torch.reference import ROOMY, random_prompts, reference

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
SIZE = ROOMY.block_size


@pytest.fixture
def server(tiny_model, make_server):
    return make_server(tiny_model, ROOMY)


def expect(network, prompts, count=12):
    # transformers stops at the end of sequence, which GREEDY ignores.
    network.generation_config.eos_token_id = None
    return reference(network, prompts, count)


def test_a_shared_system_prompt_is_computed_once(make_network, server):
    (system,) = random_prompts(1, 1000, 3 * SIZE + 5, 3 * SIZE + 5).values()
    users = random_prompts(4, 1000, 3, 40, seed=1)
    prompts = {name: system + ids for name, ids in users.items()}
    first, *others = prompts
    server.submit(first, prompts[first], GREEDY)
    server.run()
    for name in others:
        server.submit(name, prompts[name], GREEDY)
    server.run()
    assert server.tokens == expect(make_network(), prompts)
    assert [server.cached[name] for name in others] == [3 * SIZE] * 3
    assert server.stats.memory.prefix_hit_tokens == 9 * SIZE
    computed = sum(plan.prefill_tokens for plan in server.plans)
    assert computed == sum(map(len, prompts.values())) - 9 * SIZE


def test_those_that_come_together_share_what_was_computed_before(make_network, server):
    """A prompt in chunks: one that begins alike joins while the first is still being prefilled."""
    (system,) = random_prompts(1, 1000, 4 * SIZE, 4 * SIZE).values()
    prompts = {"a": [*system, 5, 6, 7], "b": [*system, 8]}
    server.submit("a", prompts["a"], GREEDY)
    server.step()
    server.submit("b", prompts["b"], GREEDY)
    server.run()
    assert server.cached == {"a": 0, "b": 4 * SIZE}
    assert server.tokens == expect(make_network(), prompts)


def test_the_second_turn_finds_prompt_and_answer_of_the_first(make_network, server):
    (first,) = random_prompts(1, 1000, SIZE + 7, SIZE + 7).values()
    server.submit("one", first, GREEDY)
    server.run()
    second = first + server.tokens["one"] + [9, 8, 7]
    server.submit("two", second, GREEDY)
    server.run()
    # The newest token of an answer was sampled, never computed.
    assert server.cached["two"] == (len(first) + 11) // SIZE * SIZE > len(first) // SIZE * SIZE
    expected = expect(make_network(), {"one": first, "two": second})
    assert server.tokens == expected


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("together", [False, True], ids=["in turn", "while it runs"])
def test_a_prompt_that_is_cached_whole(make_network, server, blocks, together):
    """Its last token is computed again, in a block of its own if the other still runs."""
    (prompt,) = random_prompts(1, 1000, blocks * SIZE, blocks * SIZE).values()
    server.submit("first", prompt, GREEDY)
    if together:
        server.step()
        server.step()
    else:
        server.run()
    server.submit("again", prompt, GREEDY)
    server.step()
    server.submit("once more", prompt, GREEDY)
    server.run()
    (expected,) = expect(make_network(), {"p": prompt}).values()
    assert server.tokens == dict.fromkeys(("first", "again", "once more"), expected)
    assert server.cached == {"first": 0, "again": len(prompt) - 1, "once more": len(prompt) - 1}
    assert server.stats.memory.copied_blocks >= 1


def test_one_that_left_leaves_its_blocks_to_others(make_network, server):
    (prompt,) = random_prompts(1, 1000, 40, 40).values()
    server.submit("gone", prompt, GREEDY)
    server.step()
    server.step()
    server.scheduler.abort("gone", 2.0)
    server.executor.remove("gone")
    server.submit("same", prompt, GREEDY)
    server.run()
    assert server.cached["same"] == 2 * SIZE
    assert server.tokens["same"] == expect(make_network(), {"p": prompt})["p"]


def test_without_the_cache_nothing_is_shared(make_network, tiny_model, make_server):
    server = make_server(tiny_model, replace(ROOMY, prefix_cache=False))
    (prompt,) = random_prompts(1, 1000, 2 * SIZE, 2 * SIZE).values()
    for name in ("first", "again"):
        server.submit(name, prompt, GREEDY)
        server.run()
    assert server.cached == {"first": 0, "again": 0}
    (expected,) = expect(make_network(), {"p": prompt}).values()
    assert server.tokens == {"first": expected, "again": expected}


def test_a_small_cache_evicts_and_stays_exact(make_network, tiny_model, make_server):
    """Conversations that grow, in memory for less than two of them."""
    server = make_server(tiny_model, replace(ROOMY, num_blocks=14))
    talks = random_prompts(4, 1000, 20, 50, seed=3)
    asked, count = {}, 0
    for _turn in range(3):
        for name, history in talks.items():
            asked[f"{count}"] = list(history)
            server.submit(f"{count}", history, GREEDY)
            server.run()
            talks[name] = [*history, *server.tokens[f"{count}"], 5, 6, 7]
            count += 1
    assert server.tokens == expect(make_network(), asked)
    assert server.stats.memory.evicted_blocks > 0
    assert server.stats.memory.prefix_hit_tokens > 0


def test_what_goes_wrong_is_shared_with_nobody(make_network, make_model, make_server):
    """A block with a NaN must not be found; one that is well must survive its holder's end."""
    network = make_network(tie_word_embeddings=False)
    network.model.embed_tokens.weight.data[7] = float("nan")
    server = make_server(make_model(network), replace(ROOMY, max_num_batched_tokens=40))
    (system,) = random_prompts(1, 1000, 2 * SIZE, 2 * SIZE).values()
    system = [t if t != 7 else 8 for t in system]
    bad = [*system, *range(20, 19 + SIZE), 7, *range(100, 160)]
    server.submit("well", [*system, 9], GREEDY)
    server.step()
    server.submit("bad", [*bad, 5], GREEDY)
    server.step()
    server.submit("shares", [*bad, 6], GREEDY)
    server.run()
    server.submit("late", [*bad, 6], GREEDY)
    server.submit("well again", [*system, 9], GREEDY)
    server.run()
    assert server.failed == {"bad", "shares", "late"}
    # It joined when the block was there and nobody knew yet what is in it.
    assert server.cached["shares"] > 2 * SIZE
    assert server.cached["late"] == 0
    network = make_network(tie_word_embeddings=False)
    expected = expect(network, {"p": [*system, 9]})["p"]
    assert server.tokens == {"well": expected, "well again": expected}
