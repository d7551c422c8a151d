import json

import pytest

from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request
from engine.engine_profiles import PROFILES, EngineProfile, load, named
from engine.hardware import A100, LLAMA3_8B, LLAMA3_70B, derive
from engine.simulator import simulate


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_saved_profiles_read_back_unchanged(tmp_path, name, suffix):
    path = tmp_path / f"engine{suffix}"
    named(name).save(path)
    assert load(path) == named(name)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_enough_to_simulate(name):
    profile = named(name)
    requests = [Request(str(i), 0.0, 100, true_tokens=20) for i in range(5)]
    result = simulate(requests, profile.config, make("fcfs"), profile.cost)
    assert len(result.timings) == 5
    assert profile.config.cost == profile.cost
    assert len(profile.source) > 40


@pytest.mark.parametrize(("model", "count"), [(LLAMA3_8B, 1), (LLAMA3_70B, 8)])
def test_the_chords_meet_the_roofline_at_both_ends(model, count):
    """Nothing to compute: the weights are read. Full: 2 FLOPs a parameter and token at half of
    the data sheet's rate. What is above it is the communication of tensor parallelism."""
    found = derive(model, A100, count, seqs=256, tokens=2048, block_size=16).cost
    read = model.parameters * 2 / (count * 2.039e12 * 0.8)
    reduces = 0 if count == 1 else 2 * model.layers
    wire = reduces * 2 * model.hidden * 2 * (count - 1) / count / 300e9
    base = reduces * 20e-6
    assert found.base == pytest.approx(read + base)
    for tokens in (256, 2048):
        compute = tokens * 2 * model.parameters / (count * 312e12 * 0.5)
        cost = found.step(256, 0) if tokens == 256 else found.step(0, 2048)
        assert cost == pytest.approx(max(read, compute) + base + tokens * wire)


def test_memory_is_what_the_weights_leave():
    found = derive(LLAMA3_8B, A100, 1, seqs=256, tokens=2048, block_size=16)
    tokens = (80 * 2**30 * 0.9 - 2e9 - 16.06e9) / (32 * 2 * 8 * 128 * 2)
    assert found.num_blocks == int(tokens // 16)
    with pytest.raises(ValueError, match="no KV memory"):
        derive(LLAMA3_70B, A100, 1, seqs=256, tokens=2048, block_size=16)


def written(tmp_path, text, name="engine.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def saved_text(tmp_path):
    path = tmp_path / "good.toml"
    named("toy-32").save(path)
    return path.read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_blocks = 16384", "num_blocks = 0", "num_blocks"),
        ("num_blocks = 16384", "num_blocks = 1.5", "num_blocks"),
        ("num_blocks = 16384", "blocks = 7", "blocks"),
        ("block_size = 16", "", "block_size"),
        ("swap = 1e-05", 'swap = "fast"', "swap"),
        ("swap = 1e-05", "swap = -1.0", "swap"),
        ("swap = 1e-05", "swap = 1e-05\nfoo = 1", "foo"),
        ("[cost]", "cost = 3\n[other]", "other"),
        ('name = "toy-32"', 'name = ""', "name"),
        ('name = "toy-32"', "name = ", "parse"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path, old, new, message):
    text = saved_text(tmp_path)
    assert old in text
    with pytest.raises(ValueError, match=message):
        load(written(tmp_path, text.replace(old, new)))


def test_other_suffixes_and_shapes_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.toml or \.json"):
        load(written(tmp_path, "", "engine.yaml"))
    with pytest.raises(ValueError, match=r"\.toml or \.json"):
        named("toy-32").save(tmp_path / "engine.txt")
    with pytest.raises(ValueError, match="table"):
        load(written(tmp_path, json.dumps([1]), "engine.json"))
    with pytest.raises(ValueError, match="toy-64"):
        named("h100")


def test_quotes_and_accents_survive(tmp_path):
    profile = EngineProfile("a", CostModel(1, 0, 0), 1, 1, 1, 1, 0, 'said "so"\nby Zoë\\')
    path = tmp_path / "engine.toml"
    profile.save(path)
    assert load(path) == profile
