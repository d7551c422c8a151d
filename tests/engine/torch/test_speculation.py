"""Speculative decoding changes no token, whatever the drafts and whatever happens meanwhile."""

import random
from dataclasses import replace

import pytest

from engine.core import policies
from engine.core.config import PreemptionConfig, PreemptionMode
from engine.core.costs import CostModel
from engine.drafting.ngram import NgramDrafter
from engine.sampling import SamplingParams
from tests.engine.torch.drafters import ALWAYS, Scripted, oracle, unreliable
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference

COST = CostModel(0.01, 0.001, 0.001, swap=0.0004)
GREEDY = SamplingParams(max_tokens=25, temperature=0.0)
EASY = replace(ROOMY, cost=COST)


def preempting(mode, **changes):
    settings = {"host_blocks": 40, "preemption": PreemptionConfig(mode), "cost": COST}
    return replace(TIGHT, **(settings | changes))


@pytest.fixture(scope="module")
def case():
    """Prompts that begin alike and repeat themselves, as text does."""
    prompts = random_prompts(16, 1000, 1, 30)
    system = prompts["p0"] * 2
    return {
        name: (system + ids if i % 3 == 0 else ids * (1 + i % 4))
        for i, (name, ids) in enumerate(prompts.items())
    }


@pytest.fixture(scope="module")
def answers():
    return {}


@pytest.fixture
def expected(case, answers, make_network):
    if not answers:
        answers.update(reference(make_network(), case, 25))
    return answers


@pytest.mark.parametrize("config", [EASY, replace(TIGHT, cost=COST)], ids=["roomy", "tight"])
@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_lookup_gives_the_tokens_of_transformers(
    make_model, make_network, native, serve, kernels, config
):
    """Of a model that knows few words, and so repeats itself."""
    small = {"vocab_size": 24, "initializer_range": 0.1, "eos_token_id": None}
    prompts = random_prompts(10, 24, 1, 50)
    expected = reference(make_network(**small), prompts, 60)
    model = make_model(make_network(**small), kernels=native if kernels == "native" else None)
    greedy = SamplingParams(max_tokens=60, temperature=0.0)
    served = serve(model, prompts, greedy, config, speculation=ALWAYS, drafter=NgramDrafter())
    assert served.tokens == expected
    assert served.stats.accepted_tokens > 40
    if config is EASY:
        plain = serve(model, prompts, greedy, config)
        assert len(served.plans) < len(plain.plans)
    else:
        assert served.preemptions > 0


@pytest.mark.parametrize("mode", list(PreemptionMode))
@pytest.mark.parametrize("cache", [True, False], ids=["prefix cache", "no cache"])
def test_under_preemption_chunks_and_swaps(tiny_model, serve, case, expected, mode, cache):
    drafter = unreliable(expected)
    config = preempting(mode, prefix_cache=cache)
    served = serve(tiny_model, case, GREEDY, config, speculation=ALWAYS, drafter=drafter)
    assert served.tokens == expected
    stats = served.stats
    assert stats.preempted_for_memory > 0
    assert served.later_chunks > 0
    assert 0 < stats.accepted_tokens < stats.drafted_tokens
    if mode is PreemptionMode.SWAP:
        assert stats.swapped_tokens > 0
    assert set(drafter.gone) == set(case)


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_come_go_and_preempt_at_random(tiny_model, make_server, case, expected, seed):
    """Requests of every urgency arrive step by step; a third of them are given up on the way."""
    draw = random.Random(seed)
    server = make_server(
        tiny_model,
        preempting(PreemptionMode.AUTO, max_num_seqs=5, num_blocks=40),
        policies.make("priority:preempts=yes"),
        speculation=ALWAYS,
        drafter=unreliable(expected, seed),
    )
    doomed = {}
    for name, ids in case.items():
        server.submit(name, ids, GREEDY, priority=draw.randrange(5))
        if draw.random() < 0.4:
            doomed[name] = len(server.plans) + draw.randrange(1, 12)
        for _ in range(draw.randint(0, 3)):
            server.step()
            for gone in [n for n, when in doomed.items() if when <= len(server.plans)]:
                server.abort(gone)
                del doomed[gone]
    server.run()
    assert server.tokens == {name: expected[name] for name in server.tokens}
    assert len(server.tokens) >= len(case) // 2
    assert server.stats.preemptions > 0


def test_what_is_sampled_stays_the_same(tiny_model, serve, case):
    """Penalties, bans and random numbers fall on a draft as they would without it."""
    sampling = {
        name: SamplingParams(
            max_tokens=30,
            min_tokens=i % 20,
            temperature=(0.0, 0.3, 0.9)[i % 3],
            top_p=(1.0, 0.9)[i % 2],
            top_k=(0, 40)[i % 4 // 2],
            min_p=(0.0, 0.02)[i % 2],
            seed=i,
            repetition_penalty=(1.0, 1.3)[i % 2],
            presence_penalty=(0.0, 0.5)[i % 4 // 3],
            frequency_penalty=(0.0, 0.3, 0.0)[i % 3],
            stop_token_ids=tuple(range(i % 7, 1000, 40)),
            logprobs=(None, 2)[i % 5 // 4],
        )
        for i, name in enumerate(case)
    }
    plain = serve(tiny_model, case, sampling, EASY)
    for drafter in (unreliable(plain.tokens), oracle(plain.tokens)):
        served = serve(tiny_model, case, sampling, EASY, speculation=ALWAYS, drafter=drafter)
        assert served.tokens == plain.tokens
        assert served.stats.accepted_tokens > 0
    assert len({len(tokens) for tokens in plain.tokens.values()}) > 3
    tight = serve(
        tiny_model, case, sampling, preempting(PreemptionMode.SWAP),
        speculation=ALWAYS, drafter=unreliable(plain.tokens),
    )  # fmt: skip
    assert tight.tokens == plain.tokens


def test_a_draft_that_ends_the_answer_ends_it_there(tiny_model, serve, case, expected):
    """By a token, and nothing behind it counts; and no draft is asked for beyond a limit."""
    ends = {name: tokens[10] for name, tokens in expected.items() if len(tokens) > 12}
    sampling = {
        name: replace(GREEDY, stop_token_ids=(ends[name],))
        if name in ends
        else replace(GREEDY, max_tokens=7)
        for name in case
    }
    drafter = oracle(expected)
    served = serve(tiny_model, case, sampling, EASY, speculation=ALWAYS, drafter=drafter)
    for name, tokens in served.tokens.items():
        stop = expected[name].index(ends[name]) + 1 if name in ends else 7
        assert tokens == expected[name][:stop]
    stats = served.stats
    assert stats.accepted_tokens <= stats.drafted_tokens
    assert stats.accepted_tokens == sum(len(t) for t in served.tokens.values()) - sum(
        step.samples for plan in served.plans for step in plan.steps
    )
    short = [name for name in case if name not in ends]
    assert all(call.get(name, 0) <= 5 for call in drafter.wanted for name in short)


def test_the_window_of_the_model_is_kept(make_model, make_network, serve):
    network = make_network(max_position_embeddings=64)
    prompts = random_prompts(4, 1000, 40, 60, seed=3)
    greedy = SamplingParams(temperature=0.0, ignore_eos=True)
    model = make_model(network)
    plain = serve(model, prompts, greedy, EASY).tokens
    assert all(len(prompts[name]) + len(tokens) == 64 for name, tokens in plain.items())
    served = serve(model, prompts, greedy, EASY, speculation=ALWAYS, drafter=oracle(plain))
    assert served.tokens == plain


def test_a_drafter_that_breaks_or_has_nothing_to_say_costs_nothing_else(
    tiny_model, serve, case, expected, caplog
):
    def breaks(sequence, most):
        raise RuntimeError("what was said must not be logged")

    for guess in (breaks, lambda sequence, most: []):
        served = serve(tiny_model, case, GREEDY, EASY, speculation=ALWAYS, drafter=Scripted(guess))
        assert served.tokens == expected
        assert served.stats.drafted_tokens == 0
    assert "RuntimeError" in caplog.text
    assert "must not be logged" not in caplog.text
    silent = serve(tiny_model, case, GREEDY, EASY, speculation=ALWAYS)
    assert silent.tokens == expected


@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_a_draft_that_gives_no_finite_number_hurts_nobody(
    make_network, make_model, serve, native, kernels
):
    """Its keys and values stay behind in the block, masked: 0 times NaN is NaN."""
    network = make_network(tie_word_embeddings=False)
    network.model.embed_tokens.weight.data[7] = float("nan")
    model = make_model(network, kernels=native if kernels == "native" else None)
    prompts = random_prompts(6, 1000, 10, 40, seed=3)
    prompts = {n: [t if t != 7 else 8 for t in ids] for n, ids in prompts.items()}
    greedy = SamplingParams(
        max_tokens=20, temperature=0.0, ignore_eos=True, logit_bias=((7, -100.0),)
    )
    expected = serve(model, prompts, greedy, EASY).tokens
    bad = Scripted(
        lambda sequence, most: [*expected[sequence.id][sequence.output_tokens :][:1], 7, 7, 7][
            :most
        ]
    )
    served = serve(model, prompts, greedy, EASY, speculation=ALWAYS, drafter=bad)
    assert served.failed == set()
    assert served.tokens == expected
    assert served.stats.accepted_tokens > 0


def test_a_request_that_goes_wrong_on_a_draft_fails_alone(make_network, make_model, serve):
    """The poisoned token is what it says itself: the request ends, as without drafts."""
    network = make_network(tie_word_embeddings=False)
    network.model.embed_tokens.weight.data[7] = float("nan")
    model = make_model(network)
    prompts = random_prompts(6, 1000, 10, 40, seed=3)
    prompts = {n: [t if t != 7 else 8 for t in ids] for n, ids in prompts.items()}
    sampling = {
        name: replace(GREEDY, ignore_eos=True, logit_bias=((7, -100.0 if i else 100.0),))
        for i, name in enumerate(prompts)
    }
    expected = serve(model, prompts, sampling, EASY)
    drafter = Scripted(lambda sequence, most: [7] * most)
    served = serve(model, prompts, sampling, EASY, speculation=ALWAYS, drafter=drafter)
    assert served.failed == expected.failed == {"p0"}
    assert served.tokens == expected.tokens


def test_nothing_is_drafted_for_free_without_room(tiny_model, serve, case, expected):
    """Drafts come from what a step has left over, and take no block from anybody."""
    config = preempting(PreemptionMode.RECOMPUTE, max_num_batched_tokens=32)
    served = serve(tiny_model, case, GREEDY, config, speculation=ALWAYS, drafter=oracle(expected))
    assert served.tokens == expected
    assert all(plan.tokens <= 32 for plan in served.plans)
    assert any(step.drafts < 4 for plan in served.plans for step in plan.steps if step.decodes)


@pytest.mark.slow
def test_the_bundled_model_gives_the_tokens_of_transformers(bundled_folder, native, serve):
    """Prompts that ask for copies, looked up under preemption, chunks and swaps."""
    import torch
    from transformers import AutoModelForCausalLM

    from engine.bench import copying
    from engine.models import load

    model = load(bundled_folder, dtype="float32", device="cpu", native=native)
    prompts = {text: model.encode_chat([("user", text)]) for text in list(copying.prompts())[:10]}
    plain = AutoModelForCausalLM.from_pretrained(bundled_folder, dtype=torch.float32).eval()
    expected = reference(plain, prompts, 24)
    greedy = SamplingParams(max_tokens=24, temperature=0.0)
    config = preempting(PreemptionMode.SWAP, num_blocks=90, max_num_batched_tokens=100)
    served = serve(model, prompts, greedy, config, speculation=ALWAYS, drafter=NgramDrafter())
    assert served.tokens == expected
    assert served.preemptions > 0
    assert served.stats.accepted_tokens > 40
