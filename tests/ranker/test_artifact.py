from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from ranker import artifact, novelty
from ranker.artifact import ArtifactError
from ranker.calibrators import fit_calibrator
from ranker.conformal import Conformal
from ranker.length_ranker import LengthRanker
from ranker.novelty import NoveltyConfig
from ranker.scale import Scale

KINDS = ("lexical", "encoder", "blend", "probe", "served")


@pytest.fixture(scope="session")
def rankers(ranker, encoder, blend, probe, examples):
    """One of each kind; the last tells two served models apart and has other calibrations."""
    rng = np.random.default_rng(0)
    prediction = blend.predict([e.prompt for e in examples[:200]])
    tokens = np.expm1(prediction.scores - prediction.scores.min()) * 50 + rng.exponential(9, 200)
    table = fit_calibrator(prediction, tokens, np.zeros(200, bool))
    levels = ranker.calibration.levels
    moved = Conformal(
        np.linspace(1, 900, len(levels)), np.linspace(-1, 1, len(levels)), 0.5, levels
    )
    prompts = [e.prompt for e in examples[:200]]
    strange = novelty.fit(
        prompts[:150],
        prompts[150:],
        NoveltyConfig(),
        references=[f"{p.capitalize()}." for p in prompts],
        window=ranker.model.window,
        seed=0,
    )
    assert strange.contrast is not None
    return {
        "lexical": ranker,
        "encoder": LengthRanker(encoder, moved, "a", "length-ranker-a"),
        "blend": LengthRanker(blend, table, "a", "length-ranker-a"),
        "probe": LengthRanker(probe, moved, "a", "length-ranker-a"),
        "served": LengthRanker(
            blend,
            ranker.calibration,
            "pooled",
            calibrations={"org/a": moved, "b é": ranker.calibration},
            scales={"": Scale(), "org/a": Scale(1.0, 0.5), "b é": Scale(-1.0, 2.0)},
            novelty=strange,
        ),
    }


@pytest.fixture(params=KINDS)
def one(request, rankers):
    return rankers[request.param]


@pytest.fixture
def folder(ranker, tmp_path):
    return artifact.save(ranker, tmp_path / "données du ranker", "# A card\n")


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def same(a, b, prompts):
    for served in ("", "org/a", "b é", "other"):
        pairs = zip(a.forecast(prompts, served), b.forecast(prompts, served), strict=True)
        assert all(replace(x, version="") == replace(y, version="") for x, y in pairs)


def test_a_loaded_ranker_forecasts_the_same_and_saves_the_same_bytes(one, examples, tmp_path):
    folder = artifact.save(one, tmp_path / "données du ranker", "# A card\n")
    loaded = artifact.load(folder)
    assert (loaded.name, loaded.served_model) == (one.name, one.served_model)
    same(one, loaded, [e.prompt for e in examples[:20]])
    again = artifact.save(loaded, tmp_path / "again", "# A card\n")
    assert content(again) == content(folder)
    assert artifact.load(again).version == loaded.version


def test_it_loads_in_another_process_without_torch_and_without_a_pickle(rankers, tmp_path):
    folder = artifact.save(rankers["served"], tmp_path / "a b é")
    code = """
import sys
from pathlib import Path
found = []
sys.addaudithook(lambda name, args: found.append(name) if name.startswith("pickle.") else None)
from ranker import artifact, novelty
ranker = artifact.load(Path(sys.argv[1]))
print([f.score.hex() for f in ranker.forecast(["an essay", "\\ud800"], "org/a")])
print(found, [m for m in ("torch", "transformers", "onnx", "mlflow") if m in sys.modules])
"""
    run = [sys.executable, "-c", code, str(folder)]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    here = rankers["served"].forecast(["an essay", "\ud800"], "org/a")
    assert out == [str([f.score.hex() for f in here]), "[] []"]


def test_name_and_version_are_those_of_the_registry_or_of_the_content(ranker, folder, tmp_path):
    loaded = artifact.load(folder, "other-name", "7")
    assert (loaded.name, loaded.version) == ("other-name", "7")
    again = artifact.save(ranker, tmp_path / "again", "# Another card\n")
    assert artifact.load(folder).version == artifact.load(again).version
    other = artifact.save(replace(ranker, served_model="other"), tmp_path / "other")
    assert artifact.load(folder).version != artifact.load(other).version
    assert (folder / "README.md").read_text() == "# A card\n"


def test_the_manifest_says_what_is_in_it_and_no_text_of_a_prompt_is(one, examples, tmp_path):
    folder = artifact.save(one, tmp_path / "ranker")
    manifest = json.loads((folder / artifact.MANIFEST).read_text())
    files = content(folder)
    assert set(manifest["files"]) == set(files) - {"README.md", artifact.MANIFEST}
    assert manifest["kind"] == one.model.kind
    whole = b"".join(files.values())
    assert all(e.prompt.encode() not in whole for e in examples)


def test_a_model_of_a_kind_that_nobody_reads_is_not_saved(ranker, tmp_path):
    class Odd:
        kind = "odd"

    with pytest.raises(
        ValueError, match="kind 'odd' cannot be saved; lexical, encoder, blend, probe can"
    ):
        artifact.save(replace(ranker, model=Odd()), tmp_path / "odd")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_things_is_not_overwritten(ranker, tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    for place in (tmp_path, tmp_path / "precious.txt"):
        with pytest.raises(ArtifactError, match="not a ranker"):
            artifact.save(ranker, place)
    with pytest.raises(ArtifactError, match="not a ranker"):
        artifact.load(tmp_path)


def test_what_cannot_be_replaced_stays(ranker, folder, monkeypatch):
    before = content(folder)
    moves = iter((os.replace, None, os.replace))

    def replace_or_fail(source, target):
        if (move := next(moves)) is None:
            raise OSError("disk full")
        move(source, target)

    monkeypatch.setattr("ranker.artifact.folder.os.replace", replace_or_fail)
    with pytest.raises(OSError, match="disk full"):
        artifact.save(ranker, folder, "new")
    assert content(folder) == before
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_saving_again_replaces_the_folder_and_leaves_nothing_beside_it(ranker, folder):
    (folder / "stray").write_text("x")
    artifact.save(ranker, folder, "new")
    assert not (folder / "stray").exists()
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]
