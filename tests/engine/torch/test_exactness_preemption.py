"""Requests that lose their slot or their memory, in every way there is, and their tokens."""

from dataclasses import replace

import pytest

from engine.core import policies
from engine.core.config import PreemptionConfig, PreemptionMode
from engine.core.costs import CostModel
from engine.core.lanes import Lane, LaneConfig
from engine.models import load
from engine.sampling import SamplingParams
from ranker.types import Forecast
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference

GREEDY = SamplingParams(max_tokens=25, temperature=0.0)
#: Long prompts are cheap to move, short ones cheap to compute again.
COST = CostModel(0.01, 0.001, 0.001, swap=0.0004)


def preempting(mode, host_blocks=40, **changes):
    return replace(
        TIGHT, host_blocks=host_blocks, preemption=PreemptionConfig(mode), cost=COST, **changes
    )


@pytest.fixture(scope="module")
def case():
    prompts = random_prompts(24, 1000, 1, 70)
    return {"prompts": prompts, "expected": {}}


@pytest.fixture
def expected(case, make_network):
    if not case["expected"]:
        case["expected"] = reference(make_network(), case["prompts"], 25)
    return case["expected"]


@pytest.mark.parametrize("mode", list(PreemptionMode))
@pytest.mark.parametrize("cache", [True, False], ids=["prefix cache", "no cache"])
def test_for_memory(tiny_model, serve, case, expected, mode, cache):
    served = serve(tiny_model, case["prompts"], GREEDY, preempting(mode, prefix_cache=cache))
    assert served.tokens == expected
    assert served.stats.preempted_for_memory > 0
    if mode is PreemptionMode.SWAP:
        assert served.stats.swapped_tokens > 0
    if mode is PreemptionMode.RECOMPUTE:
        assert served.stats.swapped_tokens == 0
        assert served.stats.recomputed_tokens > 0


def test_for_memory_with_a_host_that_is_full(tiny_model, serve, case, expected):
    """Swapped while there is room, recomputed beyond it."""
    served = serve(tiny_model, case["prompts"], GREEDY, preempting(PreemptionMode.SWAP, 5))
    assert served.tokens == expected
    assert served.stats.swapped_tokens > 0
    assert served.stats.recomputed_tokens > 0


@pytest.mark.parametrize(
    ("policy", "mode"),
    [
        ("srpt_predicted", PreemptionMode.RECOMPUTE),
        ("srpt_predicted", PreemptionMode.SWAP),
        ("priority:preempts=yes", PreemptionMode.AUTO),
        ("mlfq", PreemptionMode.SWAP),
    ],
)
def test_for_order(tiny_model, make_server, case, expected, policy, mode):
    """Ever more urgent requests arrive while the slots are taken and memory is short."""
    config = preempting(mode, max_num_seqs=5, num_blocks=40)
    built = policies.make(policy, cost=COST, batch=5, serving=True)
    server = make_server(tiny_model, config, built)
    names = list(case["prompts"])
    for order, name in enumerate(names):
        median = float(200 - 8 * order)
        forecast = Forecast(median, (median / 2, median, 2 * median), "r", "1", (0.1, 0.5, 0.9))
        server.submit(
            name, case["prompts"][name], GREEDY, forecast=forecast, priority=len(names) - order
        )
        server.step()
        server.step()
    server.run()
    assert server.tokens == expected
    assert server.stats.preempted_for_order > 0


def test_for_a_lane(tiny_model, make_server, case, expected):
    """A lane takes back the slots that it lent."""
    lanes = [
        Lane(LaneConfig("chat", reclaim=True, precedence=-1), policies.make("fcfs")),
        Lane(LaneConfig("batch"), policies.make("fcfs")),
    ]
    config = preempting(PreemptionMode.SWAP, max_num_seqs=4, num_blocks=40)
    server = make_server(tiny_model, config, lanes)
    for order, (name, ids) in enumerate(case["prompts"].items()):
        server.submit(name, ids, GREEDY, lane="batch" if order < 12 else "chat")
        server.step()
    server.run()
    assert server.tokens == expected
    assert server.stats.preempted_for_lane > 0


@pytest.mark.parametrize("mode", [PreemptionMode.RECOMPUTE, PreemptionMode.SWAP])
def test_what_is_sampled_does_not_depend_on_it(tiny_model, serve, mode):
    prompts = random_prompts(12, 1000, 1, 60, seed=2)
    sampling = {
        name: SamplingParams(max_tokens=30, temperature=0.9, top_p=0.9, top_k=40, seed=i,
                             ignore_eos=True, repetition_penalty=1.2)
        for i, name in enumerate(prompts)
    }  # fmt: skip
    together = serve(tiny_model, prompts, sampling, ROOMY).tokens
    served = serve(tiny_model, prompts, sampling, preempting(mode, num_blocks=30))
    assert served.preemptions > 0
    assert served.tokens == together


@pytest.mark.parametrize("seed", range(3))
def test_everything_at_once(make_network, tiny_model, make_server, seed):
    """Shared beginnings, growing conversations, swaps, preemption for order, little memory."""
    config = preempting(PreemptionMode.AUTO, 12, max_num_seqs=4, num_blocks=26)
    server = make_server(tiny_model, config, policies.make("priority:preempts=yes"))
    system = random_prompts(1, 1000, 20, 20, seed=seed)["p0"]
    tails = random_prompts(10, 1000, 1, 40, seed=seed + 100)
    prompts = {
        name: (system + ids if i % 3 else ids) for i, (name, ids) in enumerate(tails.items())
    }
    for order, (name, ids) in enumerate(prompts.items()):
        server.submit(name, ids, GREEDY, priority=(7 * order + seed) % 5)
        server.step()
        server.step()
    again = {
        f"{name}-2": [*prompts[name], *tokens, 11, 12] for name, tokens in server.tokens.items()
    }
    for name, ids in again.items():
        server.submit(name, ids, GREEDY, priority=-1)
        server.step()
    server.run()
    assert server.tokens == reference(make_network(), prompts | again, 25)
    stats = server.stats
    assert stats.preemptions > 0
    assert stats.memory.prefix_hit_tokens > 0


@pytest.mark.slow
def test_the_bundled_model_in_conversations_with_little_memory(bundled_folder, make_server, native):
    """A system prompt that all share, two turns each, swaps, and urgent ones that go first."""
    import torch
    from transformers import AutoModelForCausalLM

    model = load(bundled_folder, dtype="float32", device="cpu", native=native)
    greedy = SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True)
    system = "You are a guide in a museum. Answer briefly, and never say how old you are."
    subjects = ("tides", "bread", "glass", "honey", "clocks", "moss")
    config = replace(
        preempting(PreemptionMode.SWAP, 20), max_num_seqs=3, num_blocks=24, block_size=8
    )
    server = make_server(model, config, policies.make("priority:preempts=yes"))
    asked = {}
    for turn in range(2):
        for order, subject in enumerate(subjects):
            name = f"{subject}{turn}"
            if turn == 0:
                turns = [("system", system), ("user", f"How are {subject} made?")]
                asked[name] = model.encode_chat(turns)
            else:
                before = f"{subject}{turn - 1}"
                asked[name] = asked[before] + server.tokens[before] + model.encode(" And why?")
            server.submit(name, asked[name], greedy, priority=-order)
            server.step()
        server.run()
    plain = AutoModelForCausalLM.from_pretrained(bundled_folder, dtype=torch.float32).eval()
    plain.generation_config.eos_token_id = None
    assert server.tokens == reference(plain, asked, 16)
    stats = server.stats
    assert stats.memory.prefix_hit_tokens > 0
    assert stats.swapped_tokens > 0
    assert stats.preempted_for_order > 0
