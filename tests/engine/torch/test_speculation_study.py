"""The study of drafts against none: real engines of a tiny model, and the controller under load."""

import pytest

from engine.backend import TorchBackend
from engine.bench.speculation import OFF, SpecConfig, fixed, runs, study
from engine.core import policies
from engine.core.costs import CostModel
from engine.core.scheduler import SchedulerConfig
from engine.core.speculation import SpeculationConfig
from engine.drafting.measure import blocks_needed, draft_seconds, verify_steps
from engine.drafting.model import DraftModelConfig, ModelDrafter
from engine.drafting.ngram import NgramDrafter
from engine.drafting.speculative import Speculative
from engine.runner import Runner
from engine.sampling import SamplingParams
from tests.engine.torch.reference import random_prompts

#: Eight tokens for the price of one, and each beyond at that of an eighth.
KNEE = ((1, 0.008), (8, 0.008), (64, 0.064))
CONFIG = SchedulerConfig(16, 256, 16, 200, cost=CostModel(0.007, 0.001, 0.001))
#: A model that knows few words repeats itself.
SMALL = {"vocab_size": 24, "initializer_range": 0.1, "eos_token_id": None}


@pytest.fixture
def model(make_model, make_network):
    return make_model(make_network(**SMALL))


@pytest.fixture
def engines(model):
    auto = SpeculationConfig(steps=KNEE)
    chosen = {OFF: None, "always": fixed(auto, 3), "auto": auto}
    built = {
        name: TorchBackend(
            model,
            CONFIG,
            policies.make("fcfs"),
            speculative=None if config is None else Speculative(config, NgramDrafter()),
        )
        for name, config in chosen.items()
    }
    yield built
    for backend in built.values():
        backend.close()


def test_rows_hold_each_engine_against_the_one_without_drafts(engines):
    config = SpecConfig(levels=(1, 3), tokens=30, rounds=1, repeats=2)
    prompts = {"some": list(random_prompts(8, 24, 2, 40).values())}
    done = []
    rows = study(config, engines, prompts, done.append)
    assert done == list(range(1, runs(config, 3, 1) + 1))
    assert [(row.level, row.engine) for row in rows] == [
        (level, name) for level in (1, 3) for name in engines
    ]
    assert all(row.same for row in rows)
    for row in rows:
        assert row.tokens_per_second.median > 0
        if row.engine == OFF:
            assert (row.drafts, row.acceptance, row.relative.median) == (0, 0, 1)
        else:
            assert 0 < row.acceptance <= 1
            assert row.tokens_per_step > (row.drafts > 0)
    alone = {row.engine: row for row in rows if row.level == 1}
    assert alone["auto"].tokens_per_step > alone[OFF].tokens_per_step
    readings = {reading.name: reading.value for reading in engines["auto"].snapshot().readings()}
    prefix = "shortfirst_engine_spec_decode_"
    drafts, tokens, accepted, ratio = (
        readings[prefix + name]
        for name in ("num_drafts_total", "num_draft_tokens_total", "num_accepted_tokens_total",
                     "draft_acceptance_ratio")
    )  # fmt: skip
    assert 0 < drafts <= tokens
    assert ratio == accepted / tokens


def test_the_controller_follows_the_load(model, make_server):
    """Of the real executor: as more run, fewer guesses of each, in the end none but a probe."""
    drafts = []
    greedy = SamplingParams(max_tokens=30, temperature=0.0)
    for running in (1, 4, 16):
        server = make_server(
            model, CONFIG,
            speculation=SpeculationConfig(steps=KNEE, probe_every=1000), drafter=NgramDrafter(),
        )  # fmt: skip
        for name, ids in random_prompts(running, 24, 4, 12).items():
            server.submit(name, ids, greedy)
        server.run()
        decodes = [step for plan in server.plans for step in plan.steps if step.decodes]
        drafts.append(sum(step.drafts for step in decodes) / len(decodes))
    assert drafts == sorted(drafts, reverse=True)
    assert drafts[0] > 1.5
    assert drafts[-1] < 1


def test_what_drafts_cost_is_measured(model, make_model, make_network):
    ticks = iter(range(10_000))
    runner = Runner(model, model.kv_shape(blocks_needed(16, 8), 8))
    steps = verify_steps(runner, 20, lambda: float(next(ticks)))
    # By a clock that a step moves on by one, each takes one, whatever its size.
    assert steps == tuple((size, 1.0) for size in (1, 2, 4, 8, 12, 16))
    falling = iter([tick for size in range(40) for tick in (0.0, 40.0 - size)])
    assert len({seconds for _, seconds in verify_steps(runner, 8, lambda: next(falling))}) == 1
    drafter = ModelDrafter(make_model(make_network(layers=1, **SMALL)), DraftModelConfig(40, 8))
    assert draft_seconds(drafter, 4, lambda: float(next(ticks))) == 0.25
    assert len(drafter._free) == 40


def test_fixed_drafts_whatever_they_cost():
    config = fixed(SpeculationConfig(steps=KNEE, draft_seconds=1.0), 5)
    assert config.max_drafts == 5
    assert config.draft_seconds == 0.0


@pytest.mark.parametrize(
    ("fields", "field"), [({"levels": ()}, "levels"), ({"tokens": 0}, "tokens")]
)
def test_a_wrong_field_is_named(fields, field):
    with pytest.raises(ValueError, match=field):
        SpecConfig(**fields)
