"""GGUF files, converted once: in one piece, by several at once, and with errors that say why."""

import threading

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter

from engine import gguf_source
from engine.bundled import bundled_gguf, prepare_bundled
from engine.core.scheduler import SchedulerConfig
from engine.gguf_source import convert
from engine.models import load
from engine.sampling import SamplingParams

LAYERS, HIDDEN, HEADS, KV, INNER = 2, 64, 4, 2, 96
WORDS = ["<unk>", "<s>", "</s>", "<|turn|>", *(chr(97 + i) for i in range(26)), "Ġ", "ab"]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def write_gguf(path, quantised=True, architecture="llama", parts=1):
    """A tiny Llama as llama.cpp would write it, with random weights; the weights by name."""
    writer = GGUFWriter(str(path), architecture)
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3, 3, 3, *[1] * (len(WORDS) - 4)])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(3)
    writer.add_chat_template(TEMPLATE)
    if parts > 1:
        writer.add_uint16("split.count", parts)
    draw = np.random.default_rng(0)
    kv = KV * HIDDEN // HEADS
    shapes = {"token_embd": (len(WORDS), HIDDEN), "output": (len(WORDS), HIDDEN)}
    for i in range(LAYERS):
        shapes |= {
            f"blk.{i}.attn_q": (HIDDEN, HIDDEN), f"blk.{i}.attn_k": (kv, HIDDEN),
            f"blk.{i}.attn_v": (kv, HIDDEN), f"blk.{i}.attn_output": (HIDDEN, HIDDEN),
            f"blk.{i}.ffn_gate": (INNER, HIDDEN), f"blk.{i}.ffn_up": (INNER, HIDDEN),
            f"blk.{i}.ffn_down": (HIDDEN, INNER),
        }  # fmt: skip
    for name, shape in shapes.items():
        weight = draw.normal(0, 0.2, shape).astype(np.float32)
        if quantised:
            from gguf import quants

            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{name}.weight", quants.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", weight)
    norms = [f"blk.{i}.{n}" for i in range(LAYERS) for n in ("attn_norm", "ffn_norm")]
    for name in (*norms, "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def fake_conversion(monkeypatch, tmp_path):
    """A GGUF file and a conversion that takes no time."""
    gguf = tmp_path / "wheel" / "model.gguf"
    gguf.parent.mkdir()
    gguf.write_bytes(b"GGUF weights")
    made = []

    def fake(source, folder, dtype):
        (folder / "model.safetensors").write_bytes(source.read_bytes())
        made.append(folder)

    monkeypatch.setattr(gguf_source, "_convert", fake)
    made.append(gguf)
    return made


def test_conversion_happens_once(fake_conversion, tmp_path):
    gguf, cache = fake_conversion[0], tmp_path / "câche with spaces"
    first = convert(gguf, cache)
    assert convert(gguf, cache) == first
    assert len(fake_conversion) == 2
    assert [p.name for p in cache.iterdir()] == [first.name]
    assert first.name.startswith("model-")


def test_another_dtype_and_another_content_are_other_folders(fake_conversion, tmp_path):
    gguf, cache = fake_conversion[0], tmp_path / "cache"
    folders = [convert(gguf, cache), convert(gguf, cache, dtype="bfloat16")]
    gguf.write_bytes(b"GGUF other weights")
    folders += [convert(gguf, cache), convert(gguf, cache, name="named")]
    assert len(set(folders)) == 4
    assert folders[1].name == f"{folders[0].name}-bfloat16"
    assert folders[3].name.startswith("named-")


def test_a_failed_conversion_leaves_nothing(fake_conversion, tmp_path, monkeypatch):
    def fail(source, folder, dtype):
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    good = gguf_source._convert
    monkeypatch.setattr(gguf_source, "_convert", fail)
    with pytest.raises(OSError, match="disk full"):
        convert(fake_conversion[0], tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.setattr(gguf_source, "_convert", good)
    assert (convert(fake_conversion[0], tmp_path / "cache") / "model.safetensors").is_file()


def test_two_conversions_at_once_both_succeed(fake_conversion, tmp_path, monkeypatch):
    barrier = threading.Barrier(2, timeout=20)
    good = gguf_source._convert

    def together(*args):
        good(*args)
        barrier.wait()

    monkeypatch.setattr(gguf_source, "_convert", together)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(convert(fake_conversion[0], tmp_path / "c")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 2
    assert len(set(found)) == 1
    assert [p.name for p in (tmp_path / "c").iterdir()] == [found[0].name]


def test_the_bundled_model_is_named_after_itself(fake_conversion, tmp_path):
    try:
        bundled_gguf()
    except ValueError as error:
        pytest.skip(str(error))
    assert prepare_bundled(tmp_path / "c").name.startswith("smollm2-135m-instruct-")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_file_serves_with_its_tokenizer_template_and_ends(tmp_path, serve, dtype):
    gguf = tmp_path / "tiny model.gguf"
    write_gguf(gguf)
    lines = []
    folder = convert(gguf, tmp_path / "cache", dtype=dtype, progress=lines.append)
    assert [line.split()[0] for line in lines] == ["Dequantising", "Converted"]
    model = load(folder, device="cpu", dtype=dtype)
    assert model.dtype is getattr(torch, dtype)
    assert model.context_length == 128
    assert model.eos == {2, 3}
    assert model.encode_chat([("user", "dog")]) == [WORDS.index(c) for c in "dog"]
    assert model.tokenizer.decode(model.encode("dog")) == "dog"
    greedy = SamplingParams(max_tokens=8, temperature=0.0)
    config = SchedulerConfig(4, 16, 4, 20)
    served = serve(model, {"a": model.encode("hello")}, greedy, config)
    assert 1 <= len(served.tokens["a"]) <= 8


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda p: p.write_bytes(b"PK\3\4 zip"), "no GGUF file"),
        (lambda p: p.unlink(), "cannot read"),
        (lambda p: p.write_bytes(p.read_bytes()[:2000]), "damaged or cut short"),
        (lambda p: p.write_bytes(p.read_bytes()[:-40000]), "damaged or cut short"),
        (lambda p: write_gguf(p, architecture="command-r"), "'command-r'.*original safetensors"),
        (lambda p: write_gguf(p, parts=3), "one of several parts"),
    ],
    ids=["another format", "missing", "cut in the header", "cut in the weights", "architecture",
         "split"],
)  # fmt: skip
def test_files_that_cannot_be_read_say_why(tmp_path, change, problem):
    gguf = tmp_path / "m.gguf"
    write_gguf(gguf, quantised=False)
    change(gguf)
    with pytest.raises(ValueError, match=problem):
        convert(gguf, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


def test_a_full_disk_is_noticed_before_the_work(tmp_path, monkeypatch):
    gguf = tmp_path / "m.gguf"
    write_gguf(gguf)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(gguf_source.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ValueError, match="SHORTFIRST_HOME"):
        convert(gguf, tmp_path / "cache")
