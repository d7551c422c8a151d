"""Folders that somebody damaged, or made to harm: refused, by name, and nothing of them is run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load, save

from ranker import artifact
from ranker.artifact import ArtifactError
from ranker.artifact import folder as disk
from ranker.artifact.content import parse_json
from ranker.types import LEVELS

UNPICKLED = []
sys.addaudithook(lambda name, args: UNPICKLED.append(args) if name == "pickle.find_class" else None)


@pytest.fixture(scope="session")
def whole(blend, ranker, tmp_path_factory):
    """A ranker with files of every kind."""
    made = type(ranker)(blend, ranker.calibration, "a", "length-ranker-a")
    return artifact.save(made, tmp_path_factory.mktemp("whole") / "ranker é")


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "un ranker é")


def put(folder, name, data):
    """Replace a file, and its entry in the manifest with it: a digest keeps nobody out."""
    (folder / name).write_bytes(data)
    path = folder / artifact.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["files"][name] = {"bytes": len(data), "sha256": disk.digest(data)}
    path.write_text(json.dumps(manifest))


def refused(folder, *parts):
    UNPICKLED.clear()
    with pytest.raises(ArtifactError) as error:
        artifact.load(folder)
    assert not UNPICKLED
    assert all(part in str(error.value) for part in parts), str(error.value)
    assert "\n" not in str(error.value)


def listed(folder):
    return sorted(json.loads((folder / artifact.MANIFEST).read_text())["files"])


class Harm:
    def __reduce__(self):
        return os.getcwd, ()


# -- damage -----------------------------------------------------------------------------------


def test_damage_to_any_file_is_noticed(folder):
    for name in listed(folder):
        data = (folder / name).read_bytes()
        changed = bytearray(data)
        changed[len(data) // 2] ^= 1
        (folder / name).write_bytes(bytes(changed))
        refused(folder, name, "damaged")
        (folder / name).write_bytes(data[:-1])
        refused(folder, name, "damaged", "cut short")
        (folder / name).write_bytes(data + b"\n")
        refused(folder, name, "larger than")
        (folder / name).unlink()
        refused(folder, name, "missing")
        (folder / name).write_bytes(data)
    artifact.load(folder)


def test_a_file_that_is_cut_short_is_refused_whatever_its_digest(folder):
    for name in listed(folder):
        data = (folder / name).read_bytes()
        for share in (0.0, 0.3, 0.9):
            put(folder, name, data[: int(len(data) * share)])
            refused(folder, name)
        put(folder, name, data)
    artifact.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2}', "\xff", "[" * 100_000])
def test_a_broken_manifest_is_refused(folder, text):
    (folder / artifact.MANIFEST).write_text(text, encoding="latin-1")
    refused(folder, artifact.MANIFEST)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "format 1, this version reads format 2; train the ranker again"),
        ({"format": "2"}, "format '2'"),
        ({"format": 3}, "format 3"),
        ({"files": []}, "files must be an object"),
        ({"name": 3}, "name must be text"),
        ({"extra": 3}, "nothing else"),
        ({"files": {"model/model.json": {"bytes": 3}}}, "must have bytes and sha256"),
        ({"files": {"model/model.json": {"bytes": -1, "sha256": "0" * 64}}}, "at least 0"),
        ({"files": {"model/model.json": {"bytes": 1, "sha256": ""}}}, "hexadecimal"),
        ({"files": {}}, "not among the files"),
        ({"files": {f"a{i}.json": {} for i in range(300)}}, "at most 256"),
    ],
)
def test_a_manifest_of_another_form_is_refused(folder, change, message):
    path = folder / artifact.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(folder, message)


# -- ways out of the folder -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("../secret.json", "/etc/secret.json", "model/../../secret.json", "./a.json", "a//b.json"),
        *("a\\b.json", "C:/a.json", "a\0.json", "a.json/", ".hidden.json", "~/a.json", ""),
        *("a/b/c/d/e/f/g/h/i.json", "A.json\n", "é.json", "a.json:stream"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(folder, name):
    (folder.parent / "secret.json").write_text("{}")
    path = folder / artifact.MANIFEST
    manifest = json.loads(path.read_text())
    manifest["files"][name] = {"bytes": 2, "sha256": disk.digest(b"{}")}
    path.write_text(json.dumps(manifest))
    refused(folder, artifact.MANIFEST, "not a plain name inside the folder")


def test_a_link_out_of_the_folder_is_refused(folder):
    name = "model/model.json"
    outside = folder.parent / "elsewhere.json"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    refused(folder, name, "a link out of the folder")
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)
    refused(folder, name, "a link out of the folder")
    (folder / name).unlink()
    shutil.move(outside, folder / name)
    shutil.move(folder / "model", folder.parent / "model")
    (folder / "model").symlink_to(folder.parent / "model")
    refused(folder, "model", "a link out of the folder")


def test_a_pipe_is_not_waited_for(folder):
    (folder / "model/model.json").unlink()
    os.mkfifo(folder / "model/model.json")
    refused(folder, "model/model.json", "not a regular file")


# -- pickles ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.pkl", "model/trees.joblib", "weights.pt", "model/a.bin"])
def test_a_file_that_may_be_a_pickle_is_refused_though_nobody_would_read_it(folder, name):
    (folder / name).write_bytes(pickle.dumps(Harm()))
    refused(folder, name.rpartition("/")[2], "may be a pickle")


@pytest.mark.parametrize("protocol", [0, 2, 5, "zip"])
def test_a_pickle_in_the_place_of_another_file_is_refused(folder, protocol):
    data = b"PK\x03\x04 archive" if protocol == "zip" else pickle.dumps(Harm(), protocol)
    for name in listed(folder):
        before = (folder / name).read_bytes()
        put(folder, name, data)
        refused(folder, name)
        put(folder, name, before)


# -- what is in the files ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", '{"a": ' * 5000, "[1]", "\ud800"])
def test_json_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="not readable"):
        parse_json(f'{{"a": {text}}}'.encode("utf-8", "surrogatepass") if text != "[1]" else b"[1]")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model/model.json", {"kind": "odd"}, "unknown kind 'odd'; this version reads lexical"),
        ("model/model.json", {"kind": ["lexical"]}, "unknown kind"),
        ("model/blend.json", {"weights": [1.0]}, "one weight and one scale"),
        ("model/blend.json", {"weights": [1.0, -1.0]}, "positive"),
        ("model/blend.json", {"weights": 3}, "TypeError"),
        ("model/blend.json", {"scales": [{"offset": 0.0, "slope": 0.0}] * 2}, "slope"),
        ("model/blend.json", {"scales": [{"ofset": 0.0}] * 2}, "ofset"),
        ("model/part-0/lexical.json", {"features": ["log_chars"]}, "other text features"),
        ("model/part-0/lexical.json", {"ngrams": {"bits": 60}}, "bits"),
        ("model/part-0/lexical.json", {"ngrams": {"bits": 20.0}}, "whole numbers"),
        ("model/part-0/lexical.json", {"window": {"head": -1}}, "head"),
        ("model/part-0/lexical.json", {"window": {"tail": 2.5}}, "whole numbers"),
        ("model/part-0/lexical.json", {"intercept": "nan"}, "intercept must be finite"),
        ("model/part-1/encoder.json", {"levels": [0.5]}, "other levels"),
        ("model/part-1/encoder.json", {"length": 3}, "at least"),
        ("model/part-1/encoder.json", {"length": 1 << 40}, "at most"),
        ("model/part-1/encoder.json", {"head_share": "much"}, "TypeError|supported"),
        ("model/part-1/encoder.json", {"models": "a"}, "list of names"),
        ("model/part-1/encoder.json", {"models": ["a", "b", "c"]}, "does not fit"),
        ("model/part-1/encoder.json", {"length": 40}, "does not fit"),
        ("model/part-1/tokenizer.json", {"model": {"type": "Odd"}}, "no tokenizer"),
        (
            "model/part-1/tokenizer.json",
            {
                "post_processor": {
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}],
                    "pair": [],
                    "special_tokens": {},
                }
            },
            "no tokenizer",
        ),
        (
            "model/part-1/tokenizer.json",
            {
                "model": {
                    "type": "WordLevel",
                    "vocab": {"a": 0},
                    "unk_token": "[UNK]",
                }
            },
            "no tokenizer",
        ),
        ("calibration/fitted.json", {"kind": "odd"}, "unknown kind 'odd'"),
        ("calibration/fitted.json", {"numbers": {}}, "KeyError"),
        ("calibration/fitted.json", {"numbers": 4}, "must be an object"),
        (
            "calibration/fitted.json",
            {"numbers": {"bandwidth": 0.1, "levels": sorted(LEVELS, reverse=True)}},
            "levels must ascend",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(folder, name, change, message):
    put(folder, name, json.dumps(json.loads((folder / name).read_text()) | change).encode())
    UNPICKLED.clear()
    with pytest.raises(ArtifactError, match=message) as error:
        artifact.load(folder)
    assert (name if "does not fit" not in message else "network.onnx") in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"idf": np.array([1.0, np.nan], np.float32)}, "not finite"),
        ({"idf": np.array([1.0], np.float32)}, "one length"),
        ({"idf": np.array([1.0, 2.0])}, "must be a vector of float32"),
        ({"idf": np.ones((2, 1), np.float32)}, "must be a vector"),
        ({"buckets": np.array([2, 1], np.int32)}, "ascend"),
        ({"buckets": np.array([-1, 1], np.int32)}, "ascend"),
        ({"buckets": np.array([1, 1 << 30], np.int32)}, "ascend"),
        ({"buckets": np.array([1000, 1 - (1 << 31)], np.int32)}, "ascend"),
        ({"more": np.ones(2, np.float32)}, "must hold buckets, idf, coefficients"),
    ],
)
def test_tensors_that_make_no_sense_are_refused(folder, change, message):
    name = "model/part-0/ngrams.safetensors"
    two = {k: v[:2] for k, v in load((folder / name).read_bytes()).items()}
    put(folder, name, save(two | change))
    refused(folder, name, message)


def test_a_calibration_that_descends_is_refused(folder):
    name = "calibration/fitted.safetensors"
    arrays = load((folder / name).read_bytes())
    put(folder, name, save(arrays | {"table": arrays["table"][::-1].copy()}))
    refused(folder, "calibration/fitted", "descend")


def test_files_are_not_read_beyond_their_limit(folder, monkeypatch):
    monkeypatch.setitem(disk.LIMITS, ".onnx", 1000)
    refused(folder, "network.onnx", "at most 1000 are read")


def test_networks_that_are_another_are_refused(folder, graph):
    from onnx import helper

    name = "model/part-1/network.onnx"
    other = helper.make_graph(
        [helper.make_node("Identity", ["ids"], ["scores"])],
        "other",
        [helper.make_tensor_value_info("ids", 7, [None, None])],
        [helper.make_tensor_value_info("scores", 7, [None, None])],
    )
    opset = [helper.make_opsetid("", 18)]
    made = helper.make_model(other, ir_version=10, opset_imports=opset)
    put(folder, name, made.SerializeToString())
    refused(folder, name, "must take ids, mask, model")
