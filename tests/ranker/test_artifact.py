from __future__ import annotations

import json

import pytest

from ranker import artifact
from ranker.artifact import ArtifactError

FILES = ("ngrams.safetensors", "trees.txt", "calibration.json")


@pytest.fixture
def folder(ranker, tmp_path):
    return artifact.save(ranker, tmp_path / "données du ranker", "# A card\n")


def test_a_loaded_ranker_forecasts_the_same(ranker, folder, examples):
    loaded = artifact.load(folder, version="7")
    assert (loaded.name, loaded.version, loaded.served_model) == ("length-ranker-toy", "7", "toy")
    prompts = [e.prompt for e in examples[:50]]
    for a, b in zip(ranker.forecast(prompts), loaded.forecast(prompts), strict=True):
        assert (a.score, a.quantiles) == (b.score, b.quantiles)
    assert (folder / "README.md").read_text() == "# A card\n"


def test_without_a_registry_the_version_is_the_content(ranker, folder, tmp_path):
    again = artifact.save(ranker, tmp_path / "again")
    assert artifact.load(folder).version == artifact.load(again).version


def test_no_text_of_a_prompt_and_no_pickle_is_in_it(folder, examples):
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        (*FILES, "README.md", artifact.MANIFEST)
    )
    content = b"".join(p.read_bytes() for p in folder.iterdir())
    assert all(e.prompt.encode() not in content for e in examples)


@pytest.mark.parametrize("file", FILES)
def test_damage_is_noticed(folder, file):
    data = bytearray((folder / file).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / file).write_bytes(bytes(data))
    with pytest.raises(ArtifactError, match=f"{file}: damaged"):
        artifact.load(folder)
    (folder / file).unlink()
    with pytest.raises(ArtifactError, match=f"{file}: missing"):
        artifact.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2"),
        ({"kind": "encoder"}, "kind encoder"),
        ({"features": ["log_chars"]}, "other text features"),
        ({"sha256": {}}, "sha256 must list"),
    ],
)
def test_another_format_is_refused(folder, change, message):
    path = folder / artifact.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ArtifactError, match=message):
        artifact.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}'])
def test_a_broken_manifest_is_refused(folder, text):
    (folder / artifact.MANIFEST).write_text(text)
    with pytest.raises(ArtifactError, match="not readable"):
        artifact.load(folder)


def test_a_folder_with_other_things_is_not_overwritten(ranker, tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(ArtifactError, match="not a ranker"):
        artifact.save(ranker, tmp_path)
    with pytest.raises(ArtifactError, match="not a ranker"):
        artifact.load(tmp_path)


def test_saving_again_replaces_the_folder_and_leaves_nothing_beside_it(ranker, folder):
    (folder / "stray").write_text("x")
    artifact.save(ranker, folder, "new")
    assert not (folder / "stray").exists()
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
