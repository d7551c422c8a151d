"""Loading models from folders, and which forward pass they get."""

import subprocess
import sys

import pytest
import torch

from engine import bundled, linear, llama
from engine.attention.pool import KVShape
from engine.devices import resolve_device, resolve_dtype
from engine.forward import Transformers
from engine.models import load


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


def test_llama_gets_the_fast_forward_and_its_kin_do_not(make_network, make_model):
    class Other(type(make_network())):
        """Might compute anything."""

    assert isinstance(make_model(make_network(), kernels=None).forward, llama.Llama)
    other = make_network()
    other.__class__ = Other
    assert isinstance(make_model(other, kernels=None).forward, Transformers)
    gelu = make_network(hidden_act="gelu")
    assert isinstance(make_model(gelu, kernels=None).forward, Transformers)


def test_a_fast_forward_that_is_off_is_not_used(make_network, make_model, monkeypatch, caplog):
    right = llama.Llama._angles
    monkeypatch.setattr(llama.Llama, "_angles", lambda *args: right(*args)[::-1])
    assert isinstance(make_model(make_network(), kernels=None).forward, Transformers)
    assert "forward is off" in caplog.text


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
        "import sys, engine.sampling, engine.events, engine.sources, engine.chat, engine.stream;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_bundled_model_loads_and_chats(bundled_folder):
    model = load(bundled_folder, name=bundled.BUNDLED, dtype="float32", device="cpu")
    assert model.context_length == 8192
    ids = model.encode_chat([("user", "Say hello.")])
    text = model.tokenizer.decode(ids)
    assert text.endswith("<|im_start|>assistant\n")
    assert model.eos == {model.tokenizer.convert_tokens_to_ids("<|im_end|>")}
