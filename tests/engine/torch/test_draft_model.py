"""A draft model: it says what it would say alone, through every turn of the requests it serves."""

import random
from dataclasses import replace

import pytest

from engine.core.config import PreemptionConfig, PreemptionMode
from engine.core.costs import CostModel
from engine.drafting.drafter import Wanted
from engine.drafting.model import DraftModelConfig, ModelDrafter, check_same_tokens
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from tests.engine.torch.drafters import ALWAYS
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts, reference

COST = CostModel(0.01, 0.001, 0.001, swap=0.0004)
GREEDY = SamplingParams(max_tokens=25, temperature=0.0)
EASY = replace(ROOMY, cost=COST)


@pytest.fixture(scope="module")
def prompts():
    return random_prompts(8, 1000, 1, 60, seed=4)


@pytest.mark.parametrize("blocks", [400, 30], ids=["roomy", "tight"])
def test_it_says_what_it_would_say_alone(make_model, make_network, blocks):
    """While any part of what it said comes true, and others take its memory in between."""
    network = make_network(layers=1, eos_token_id=None)
    drafter = ModelDrafter(make_model(network), DraftModelConfig(blocks, 8, prefill_tokens=50))
    draw = random.Random(0)
    prompts = random_prompts(7, 1000, 1, 60, seed=6)
    sequences = [Sequence.start(name, ids, GREEDY) for name, ids in prompts.items()]
    said = 0
    for _ in range(25):
        asked = draw.sample(sequences, draw.randint(1, 4))
        wanted = [Wanted(sequence, draw.randint(1, 4)) for sequence in asked]
        for (sequence, most), drafts in zip(wanted, drafter.propose(wanted), strict=True):
            assert len(drafts) <= most
            if drafts:
                alone = reference(make_network(layers=1, eos_token_id=None),
                                  {"": sequence.tokens}, len(drafts))[""]  # fmt: skip
                assert drafts == alone
                said += 1
            for token in [*drafts[: draw.randint(0, len(drafts))], draw.randrange(1000)]:
                sequence.append(token)
    assert said > 20
    for sequence in sequences:
        drafter.forget(sequence.id)
    drafter.forget("unknown")
    assert sorted(drafter._free) == list(range(blocks))


def test_the_same_model_is_always_right(make_model, make_network, serve, prompts):
    expected = reference(make_network(), prompts, 25)
    drafter = ModelDrafter(make_model(make_network()), DraftModelConfig(400, 16, 4096))
    served = serve(
        make_model(make_network()), prompts, GREEDY, EASY, speculation=ALWAYS, drafter=drafter
    )
    assert served.tokens == expected
    stats = served.stats
    # What is refused stands behind an end-of-sequence token.
    assert stats.accepted_tokens >= stats.drafted_tokens - 4 * len(prompts)
    assert len(served.plans) <= 2 + 25 // 5
    assert len(drafter._free) == 400


@pytest.mark.parametrize("mode", list(PreemptionMode))
def test_another_model_under_preemption_changes_nothing(
    make_model, make_network, serve, prompts, mode
):
    """Its first layer is that of the model, so that it is right now and then; its pool is short."""
    large, small = make_network(), make_network(layers=1)
    small.load_state_dict(large.state_dict(), strict=False)
    expected = reference(large, prompts, 25)
    drafter = ModelDrafter(make_model(small), DraftModelConfig(20, 8, prefill_tokens=24))
    config = replace(
        TIGHT, num_blocks=30, host_blocks=20, preemption=PreemptionConfig(mode), cost=COST
    )
    served = serve(
        make_model(make_network()), prompts, GREEDY, config, speculation=ALWAYS, drafter=drafter
    )
    assert served.tokens == expected
    assert served.preemptions > 0
    assert 0 < served.stats.accepted_tokens < served.stats.drafted_tokens
    assert len(drafter._free) == 20


def test_an_aborted_request_gives_its_memory_back(make_model, make_network, make_server, prompts):
    drafter = ModelDrafter(make_model(make_network()), DraftModelConfig(100, 8))
    server = make_server(make_model(make_network()), EASY, speculation=ALWAYS, drafter=drafter)
    for name, ids in prompts.items():
        server.submit(name, ids, GREEDY)
    server.step()
    server.step()
    server.step()
    assert len(drafter._free) < 100
    for name in prompts:
        server.abort(name)
    assert len(drafter._free) == 100


def test_a_window_shorter_than_that_of_the_model(make_model, make_network, serve):
    prompts = random_prompts(3, 1000, 20, 28, seed=2)
    expected = reference(make_network(), prompts, 25)
    drafter = ModelDrafter(
        make_model(make_network(max_position_embeddings=32)), DraftModelConfig(100, 8)
    )
    served = serve(
        make_model(make_network()), prompts, GREEDY, EASY, speculation=ALWAYS, drafter=drafter
    )
    assert served.tokens == expected
    assert served.stats.accepted_tokens > 0


def test_models_of_other_tokens_are_refused(make_model, make_network):
    model, other = make_model(make_network()), make_model(make_network(vocab_size=900))
    check_same_tokens(model, make_model(make_network(layers=1)))
    with pytest.raises(ValueError, match="must share one tokenizer; they have 900 and 1000"):
        check_same_tokens(model, other)
    renamed = replace(model, tokenizer=type("Other", (), {"get_vocab": lambda _: {"a": 1}})())
    with pytest.raises(ValueError, match="which differ"):
        check_same_tokens(model, renamed)


@pytest.mark.parametrize("field", ["num_blocks", "block_size", "prefill_tokens"])
def test_a_wrong_field_is_named(field):
    with pytest.raises(ValueError, match=f"draft_model.{field} must be >= 1"):
        DraftModelConfig(**({"num_blocks": 4} | {field: 0}))
