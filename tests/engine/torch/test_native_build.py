"""Compiling at first use: what is kept, what is thrown away, and life without a compiler."""

import concurrent.futures
import multiprocessing
import os
import stat

import pytest

from engine.native import build
from engine.native.library import Kernels, Native, load


@pytest.fixture
def few_sources(monkeypatch, tmp_path):
    """One small source, so that a test compiles in a moment."""
    folder = tmp_path / "süurces and spaces"
    folder.mkdir()
    (folder / "a.c").write_text("int answer(void) { return 42; }\n")
    monkeypatch.setattr(build, "_sources", lambda: sorted(folder.glob("*.[ch]")))
    try:
        build.compiler()
    except build.BuildFailed as error:
        pytest.skip(str(error))
    return folder


def test_it_is_compiled_once(few_sources, tmp_path, monkeypatch):
    made = build.build(tmp_path / "cache")
    monkeypatch.setattr(build, "_compile", None)
    assert build.build(tmp_path / "cache") == made
    assert list((tmp_path / "cache").iterdir()) == [made]


def test_another_source_flag_or_cpu_is_compiled_anew(few_sources, tmp_path, monkeypatch):
    made = {build.build(tmp_path)}
    (few_sources / "a.c").write_text("int answer(void) { return 43; }\n")
    made.add(build.build(tmp_path))
    monkeypatch.setattr(build, "FLAGS", (("-O1",),))
    made.add(build.build(tmp_path))
    monkeypatch.setattr(build, "_cpu", lambda: "another")
    made.add(build.build(tmp_path))
    assert len(made) == 4


def test_flags_that_the_compiler_refuses_are_left_out(few_sources, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "FLAGS", (("-march=toaster",), ("-O2",)))
    assert build.build(tmp_path).is_file()


def test_a_damaged_file_is_built_again(few_sources, tmp_path, caplog):
    made = build.build(tmp_path)
    content = made.read_bytes()
    made.write_bytes(content[: len(content) // 2])
    assert build.build(tmp_path).read_bytes() == content
    assert "damaged" in caplog.text


def test_a_damaged_file_that_another_process_threw_away(few_sources, tmp_path, monkeypatch):
    made = build.build(tmp_path)
    content = made.read_bytes()
    made.unlink()
    # As if it went between the listing and the reading.
    listing = type(made).glob
    monkeypatch.setattr(type(made), "glob", lambda folder, pattern: (
        iter([made]) if folder == tmp_path else listing(folder, pattern)
    ))  # fmt: skip
    assert build.build(tmp_path).read_bytes() == content


def _build(folder, cache):
    build._sources = lambda: sorted(folder.glob("*.[ch]"))
    return build.build(cache)


def test_two_processes_at_once(few_sources, tmp_path):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        both = [pool.submit(_build, few_sources, tmp_path / "cache") for _ in range(2)]
        found = {one.result(timeout=120) for one in both}
    assert len(found) == 1
    assert [path.is_file() for path in (tmp_path / "cache").iterdir()] == [True]


def test_a_source_that_does_not_compile_is_named(few_sources, tmp_path):
    (few_sources / "b.c").write_text("int f( {")
    with pytest.raises(build.BuildFailed, match=r"fails on b\.c"):
        build.build(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_a_compiler_torch_serves(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert load(tmp_path / "cache") is None
    assert "no C compiler found" in caplog.text
    with pytest.raises(ValueError, match="kernels: native"):
        load(tmp_path / "cache", kernels=Kernels.NATIVE)


def test_a_compiler_that_fails_is_no_compiler(tmp_path, monkeypatch, caplog):
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho error: out of order >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(broken))
    assert load(tmp_path / "cache") is None
    assert "out of order" in caplog.text


def test_a_compiler_that_never_ends_is_no_compiler(tmp_path, monkeypatch, caplog):
    stuck = tmp_path / "stuck-cc"
    stuck.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    stuck.chmod(stuck.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(stuck))
    monkeypatch.setattr(build, "_TIMEOUT_S", 0.1)
    assert load(tmp_path / "cache") is None
    assert "stuck-cc took over 0.1 s" in caplog.text


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(few_sources, tmp_path, caplog):
    file = tmp_path / "file"
    file.write_text("in the way")
    assert load(file / "cache") is None
    assert "torch computes" in caplog.text


def test_torch_is_asked_for(tmp_path):
    assert load(tmp_path, kernels=Kernels.TORCH) is None
    assert list(tmp_path.iterdir()) == []


def test_a_library_without_what_is_needed_is_refused(few_sources, tmp_path, caplog):
    assert load(tmp_path / "cache") is None
    assert "torch computes" in caplog.text


def test_threads_end_with_their_owner(native):
    if native is None:
        pytest.skip("no C compiler")
    before = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else None
    many = Native(native.file, 4)
    if before is not None:
        assert len(os.listdir("/proc/self/task")) == before + 3
    del many
    if before is not None:
        assert len(os.listdir("/proc/self/task")) == before
