"""What the repository promises about itself: generated code, layout, privacy, help."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ("shortfirst/rank/v1/rank.proto", "shortfirst/generate/v1/generate.proto")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_the_committed_protobuf_code_is_what_the_protos_generate(tmp_path: Path):
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{ROOT / 'proto'}",
            f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}",
            f"--grpc_python_out={tmp_path}",
            *PROTOS,
        ],
        check=True,
        cwd=ROOT / "proto",
    )
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2*"))
    assert len(made) == 3 * len(PROTOS)
    for path in made:
        committed = (ROOT / "proto" / path).read_text(encoding="utf-8")
        assert committed == (tmp_path / path).read_text(encoding="utf-8"), f"run make proto: {path}"


def test_proto_is_no_package_lest_it_shadow_proto_plus():
    assert not (ROOT / "proto" / "__init__.py").exists()


def test_the_generic_top_level_is_the_agreed_one():
    folders = {path.relative_to(ROOT).parts[0] for path in tracked()}
    agreed = {"ranker", "training", "serving", "drift", "engine", "proto", "tests", "notebooks"}
    packages = {name for name in folders if (ROOT / name).is_dir() and not name.startswith(".")}
    assert packages <= agreed


def test_no_tracked_file_names_this_machine_or_a_download_address():
    here = str(ROOT.parent) + "/"
    address = re.compile(r"(index-url|find-links)|https?://\S+\.(whl|tar\.gz)\b")
    for path in tracked():
        if path.suffix in {".parquet", ".png"} or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        assert here not in text, path
        assert not address.search(text), path


def test_every_dependency_says_why_it_is_there():
    for line in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if re.match(r'\s+"[A-Za-z0-9_-]+[><=]', line):
            assert "#" in line, f"no reason given: {line.strip()}"


def test_pinned_versions_lie_in_the_declared_ranges():
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    pins = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    for text in requires("shortfirst") or []:
        requirement = Requirement(text)
        pin = pins.get(requirement.name.lower().replace("_", "-"))
        assert pin is not None, f"{requirement.name} has no pin in constraints.txt"
        assert requirement.specifier.contains(pin), f"{requirement} against {pin}"


def test_importing_ranker_loads_neither_torch_nor_mlflow():
    code = "import sys, ranker.types; print([m for m in ('torch', 'mlflow') if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert out.stdout.strip() == "[]"


def test_the_core_needs_the_standard_library_and_ranker_types_alone():
    code = """if True:
        import sys
        before = set(sys.modules)
        import importlib, pkgutil
        import engine.core
        for found in pkgutil.walk_packages(engine.core.__path__, "engine.core."):
            importlib.import_module(found.name)
        ours = ("engine", "ranker", "ranker.types")
        for name in sorted(set(sys.modules) - before):
            known = name.partition(".")[0] in sys.stdlib_module_names or name in ours
            if not known and not name.startswith("engine.core"):
                print(name)
    """
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert out.stdout == ""


def test_every_command_of_the_project_has_help_that_names_its_options():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert scripts["scripts"]["shortfirst"] == "serving.cli:main"
    from typer.testing import CliRunner

    from serving.cli import COMMANDS, app

    expected = {
        "up", "demo", "train", "evaluate", "label", "promote", "rollback", "rank", "serve",
        "engine", "bench", "drift",
    }  # fmt: skip
    assert set(COMMANDS) == expected
    for command in COMMANDS:
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0, (command, result.output)
        assert "--help" in result.output
        assert len(result.output.splitlines()) > 5, command
