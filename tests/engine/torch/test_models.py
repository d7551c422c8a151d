"""Loading, refusing what would run wrongly, and the one-time conversion of the bundled model."""

import subprocess
import sys
import threading

import pytest
import torch

from engine import bundled, linear, llama
from engine.attention.pool import KVShape
from engine.devices import resolve_device, resolve_dtype
from engine.forward import Transformers
from engine.models import check_config, load, prepare


def test_adopted_model_describes_itself(tiny_model):
    assert tiny_model.context_length == 512
    assert tiny_model.eos == {2}
    assert tiny_model.kv_shape(10, 8) == KVShape(3, 3, 16, 10, 8)
    with pytest.raises(ValueError, match="no chat template"):
        tiny_model.encode_chat([("user", "hello")])


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot load"):
        load(tmp_path)


def test_a_model_saved_to_a_folder_with_spaces_and_accents(tmp_path, make_network, bundled_folder):
    from transformers import AutoTokenizer

    folder = tmp_path / "mes modèles à moi"
    make_network().save_pretrained(folder)
    AutoTokenizer.from_pretrained(bundled_folder).save_pretrained(folder)
    model = load(folder, device="cpu", dtype="float32")
    assert model.name == folder.name
    assert prepare(str(folder), tmp_path) == (folder.name, str(folder))


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"sliding_window": 16, "use_sliding_window": True}, "sliding window"),
     ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
     ({"rope_parameters": {"rope_type": "dynamic"}}, "rope type 'dynamic'")],
    ids=["window", "layers", "rope"],
)  # fmt: skip
def test_configs_that_would_run_wrongly_are_refused(make_network, change, problem):
    config = make_network(layers=1).config
    for name, value in change.items():
        setattr(config, name, value)
    with pytest.raises(ValueError, match=problem):
        check_config(config)


def test_a_config_without_a_longest_position_is_refused():
    """As BLOOM's, whose positions are a bias and have no end."""
    from transformers import BloomConfig

    with pytest.raises(ValueError, match="how many positions"):
        check_config(BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4))


def test_an_architecture_with_another_attention_is_refused(make_model):
    """BLOOM adds a bias to its scores by itself and never asks for an attention function."""
    from transformers import BloomConfig, BloomForCausalLM

    torch.manual_seed(0)
    config = BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4)
    config.max_position_embeddings = 64
    with pytest.raises(ValueError, match="bloom"):
        make_model(BloomForCausalLM(config).eval())


def test_other_families_run(make_model, serve):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from engine.core.scheduler import SchedulerConfig
    from engine.sampling import SamplingParams

    torch.manual_seed(0)
    network = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
            eos_token_id=299,
        )
    ).eval()  # fmt: skip
    prompts = {"a": [5, 6, 7], "b": [9] * 20}
    expected = {
        name: network.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[
            0, len(ids) :
        ].tolist()
        for name, ids in prompts.items()
    }
    config = SchedulerConfig(4, 16, 4, 20)
    greedy = SamplingParams(max_tokens=8, temperature=0.0)
    assert serve(make_model(network), prompts, greedy, config).tokens == expected


def test_llama_gets_the_fast_forward_and_its_kin_do_not(make_network, make_model):
    class Other(type(make_network())):
        """Might compute anything."""

    assert isinstance(make_model(make_network()).forward, llama.Llama)
    other = make_network()
    other.__class__ = Other
    assert isinstance(make_model(other).forward, Transformers)
    assert isinstance(make_model(make_network(hidden_act="gelu")).forward, Transformers)


def test_a_fast_forward_that_is_off_is_not_used(make_network, make_model, monkeypatch, caplog):
    right = llama.Llama._angles
    monkeypatch.setattr(llama.Llama, "_angles", lambda *args: right(*args)[::-1])
    assert isinstance(make_model(make_network()).forward, Transformers)
    assert "fast forward is off" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_linears_compute_the_same(dtype, bias):
    if not linear.supported(dtype):
        pytest.skip(f"this torch packs no {dtype} linears on this CPU")
    torch.manual_seed(0)
    layer = torch.nn.Linear(96, 130, bias=bias, dtype=dtype)
    other = torch.nn.Linear(96, 10, bias=not bias, dtype=dtype)
    packed = linear.PackedLinear(layer, other)
    stacked = linear.stack([layer, other], pack=False)
    for rows in (1, 2, 3, 17, 64):
        x = torch.randn(1, rows, 96, dtype=dtype)
        expected = torch.cat([layer(x), other(x)], -1)
        tolerance = 1e-5 if dtype == torch.float32 else 3e-2
        torch.testing.assert_close(packed(x), expected, atol=tolerance, rtol=tolerance)
        torch.testing.assert_close(stacked(x), expected, atol=tolerance, rtol=tolerance)


def test_devices_and_dtypes_are_named():
    cpu = resolve_device("cpu")
    assert resolve_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
    assert resolve_dtype("bfloat16", cpu) is torch.bfloat16
    with pytest.raises(ValueError, match="device must be"):
        resolve_device("toaster")
    with pytest.raises(ValueError, match="dtype must be"):
        resolve_dtype("int8", cpu)


def test_engine_types_load_no_torch():
    code = (
        "import sys, engine.sampling, engine.events, engine.bundled, engine.stream;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def fake_conversion(monkeypatch, tmp_path):
    """A GGUF file and a conversion that takes no time."""
    gguf = tmp_path / "wheel" / "model.gguf"
    gguf.parent.mkdir()
    gguf.write_bytes(b"weights")
    monkeypatch.setattr(bundled, "bundled_gguf", lambda: gguf)
    made = []

    def convert(source, folder):
        (folder / "model.safetensors").write_bytes(source.read_bytes())
        made.append(folder)

    monkeypatch.setattr(bundled, "_convert", convert)
    return made


def test_conversion_happens_once(fake_conversion, tmp_path):
    cache = tmp_path / "câche with spaces"
    first = bundled.prepare_bundled(cache)
    assert bundled.prepare_bundled(cache) == first
    assert len(fake_conversion) == 1
    assert [p.name for p in cache.iterdir()] == [first.name]


def test_a_failed_conversion_leaves_nothing(fake_conversion, tmp_path, monkeypatch):
    def fail(source, folder):
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    good = bundled._convert
    monkeypatch.setattr(bundled, "_convert", fail)
    with pytest.raises(OSError, match="disk full"):
        bundled.prepare_bundled(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.setattr(bundled, "_convert", good)
    assert (bundled.prepare_bundled(tmp_path / "cache") / "model.safetensors").is_file()


def test_two_conversions_at_once_both_succeed(fake_conversion, tmp_path, monkeypatch):
    barrier = threading.Barrier(2, timeout=20)
    good = bundled._convert

    def together(source, folder):
        good(source, folder)
        barrier.wait()

    monkeypatch.setattr(bundled, "_convert", together)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(bundled.prepare_bundled(tmp_path / "c")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 2
    assert len(set(found)) == 1
    assert [p.name for p in (tmp_path / "c").iterdir()] == [found[0].name]


@pytest.mark.slow
def test_the_bundled_model_loads_and_chats(bundled_folder):
    model = load(bundled_folder, name=bundled.BUNDLED, dtype="float32", device="cpu")
    assert model.context_length == 8192
    ids = model.encode_chat([("user", "Say hello.")])
    text = model.tokenizer.decode(ids)
    assert text.endswith("<|im_start|>assistant\n")
    assert model.eos == {model.tokenizer.convert_tokens_to_ids("<|im_end|>")}
