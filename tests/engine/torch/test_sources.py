"""Where models are found: folders, files, the hub's cache; and what is refused unread."""

import json
import shutil

import pytest

from engine.bundled import BUNDLED
from engine.models import load
from engine.sources import ModelSource

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def saved(tmp_path_factory, bundled_folder):
    """A tiny model as ``save_pretrained`` leaves it."""
    from transformers import AutoTokenizer

    from tests.engine.torch.conftest import tiny_network

    folder = tmp_path_factory.mktemp("saved")
    tiny_network(layers=1, vocab_size=49152, hidden_size=36, num_attention_heads=3,
                 num_key_value_heads=1).save_pretrained(folder)  # fmt: skip
    AutoTokenizer.from_pretrained(bundled_folder).save_pretrained(folder)
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The hub's cache on this machine, offline: what is not in it cannot be had."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def add(repository, folder, ref="main", commit=COMMIT):
        root = cache / f"models--{repository.replace('/', '--')}"
        shutil.copytree(folder, root / "snapshots" / commit)
        (root / "refs").mkdir(parents=True, exist_ok=True)
        (root / "refs" / ref).write_text(commit)

    add.cache = cache
    return add


def find(model, tmp_path, **fields):
    return ModelSource(str(model), **fields).folder(tmp_path / "cache", "float32")


def test_a_folder_is_taken_as_it_is(saved, tmp_path):
    assert find(saved, tmp_path) == saved
    assert ModelSource(str(saved)).default_name == saved.name
    assert ModelSource(f"{saved}/").default_name == saved.name


def test_names_to_serve_under():
    assert ModelSource(BUNDLED).default_name == BUNDLED
    assert ModelSource("owner/name").default_name == "owner/name"
    assert ModelSource("owner/name/model-q4_0.gguf").default_name == "model-q4_0"


def test_an_id_is_served_from_the_hubs_cache(hub, saved, tmp_path):
    hub("owner/tiny", saved)
    lines = []
    folder = ModelSource("owner/tiny").folder(tmp_path / "cache", "float32", lines.append)
    assert folder == hub.cache / "models--owner--tiny" / "snapshots" / COMMIT
    assert "owner/tiny" in lines[0]
    model = load(folder, name="owner/tiny", device="cpu", dtype="float32")
    assert model.name == "owner/tiny"
    assert model.context_length == 512


def test_a_revision_is_another_snapshot(hub, saved, tmp_path):
    other = "f" * 40
    hub("owner/tiny", saved)
    hub("owner/tiny", saved, ref="v2", commit=other)
    assert find("owner/tiny", tmp_path, revision="v2").name == other
    assert find("owner/tiny", tmp_path, revision=other).name == other
    assert find("owner/tiny", tmp_path).name == COMMIT
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set"):
        find("owner/tiny", tmp_path, revision="v3")


def test_a_gguf_file_of_the_hub(hub, tmp_path, monkeypatch):
    from engine import sources

    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "tiny-q8_0.gguf").write_bytes(b"GGUF")
    hub("owner/tiny-GGUF", folder)
    seen = []
    monkeypatch.setattr(sources, "convert", lambda file, *_, **__: seen.append(file) or file)
    find("owner/tiny-GGUF/tiny-q8_0.gguf", tmp_path)
    assert seen[0].read_bytes() == b"GGUF"


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("owner/absent", "no folder, and as an id on the hub.*HF_HUB_OFFLINE is set"),
        ("no such/folder/at all", "cannot be an id on the hub"),
        ("absent.gguf", "no file absent.gguf.*owner/name/file.gguf"),
        ("/absent/model.gguf", "no file /absent/model.gguf"),
        ("owner/name/absent.gguf", "HF_HUB_OFFLINE is set"),
    ],
)
def test_what_is_not_there_is_refused(hub, tmp_path, model, problem):
    with pytest.raises(ValueError, match=problem):
        find(model, tmp_path)


def test_what_is_in_a_folder_is_looked_at(saved, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match=r"no config\.json"):
        find(empty, tmp_path)
    (empty / "a.gguf").touch()
    with pytest.raises(ValueError, match=r"name one of its files: a\.gguf"):
        find(empty, tmp_path)
    with pytest.raises(ValueError, match="is a file; give its folder"):
        find(saved / "config.json", tmp_path)


def test_pickled_weights_are_not_loaded_unless_asked(saved, tmp_path):
    import torch

    pickled = tmp_path / "pickled"
    shutil.copytree(saved, pickled)
    (pickled / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="no weights as safetensors"):
        find(pickled, tmp_path)
    from tests.engine.torch.conftest import tiny_network

    network = tiny_network(layers=1, vocab_size=49152, hidden_size=36, num_attention_heads=3,
                           num_key_value_heads=1)  # fmt: skip
    torch.save(network.state_dict(), pickled / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"can run code when they are loaded.*--allow-pickle"):
        find(pickled, tmp_path)
    folder = find(pickled, tmp_path, allow_pickle=True)
    assert load(folder, device="cpu", dtype="float32", allow_pickle=True).context_length == 512


def test_code_that_comes_with_a_model_is_not_run_unless_asked(saved, tmp_path, monkeypatch):
    from transformers import dynamic_module_utils

    foreign = tmp_path / "foreign"
    shutil.copytree(saved, foreign)
    config = json.loads((foreign / "config.json").read_text())
    config |= {
        "model_type": "unheard_of",
        "auto_map": {
            "AutoConfig": "code.Config",
            "AutoModelForCausalLM": "code.Model",
        },
    }
    (foreign / "config.json").write_text(json.dumps(config))
    (foreign / "code.py").write_text(
        "from pathlib import Path\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "class Config(LlamaConfig):\n    model_type = 'unheard_of'\n"
        "class Model(LlamaForCausalLM):\n    config_class = Config\n"
    )
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    with pytest.raises(ValueError, match="not executed; pass --trust-remote-code"):
        load(foreign, device="cpu", dtype="float32")
    assert not (tmp_path / "ran").exists()
    model = load(foreign, device="cpu", dtype="float32", trust_remote_code=True)
    assert (tmp_path / "ran").exists()
    assert model.config.model_type == "unheard_of"


def test_a_revision_of_what_is_not_on_the_hub_is_refused(saved):
    with pytest.raises(ValueError, match="revision is for models of the hub"):
        ModelSource(str(saved), revision="v2")
    with pytest.raises(ValueError, match="model must not be empty"):
        ModelSource("")


def test_weights_that_are_missing_are_not_made_up(saved, tmp_path):
    lacking = tmp_path / "lacking"
    shutil.copytree(saved, lacking)
    config = json.loads((lacking / "config.json").read_text())
    (lacking / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    with pytest.raises(ValueError, match=r"lacks 9 of the weights.*model\.layers\.1\."):
        load(lacking, device="cpu", dtype="float32")


def test_files_that_are_damaged_are_named(saved, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(saved, broken)
    (broken / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ValueError, match="cannot load the weights"):
        load(broken, device="cpu", dtype="float32")
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="a tokenizer cannot be read"):
        load(broken, device="cpu", dtype="float32")
