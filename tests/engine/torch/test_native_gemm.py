"""The C matrix products against float64, in every instruction set that this CPU runs."""

import ctypes
import itertools
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import engine.native
from engine.native import build

SOURCES = sorted(Path(engine.native.__file__).parent.glob("gemm*.c"))
#: Instruction set -> compiler flags, and what the CPU must have to run it.
VARIANTS = {
    "native": (["-march=native"], ()),
    "avx512": (["-mavx512f", "-mfma"], ("avx512f",)),
    "avx2": (["-mavx2", "-mfma"], ("avx2", "fma")),
    "portable": ([], ()),
}
SHAPES = [(1, 1, 1), (2, 5, 3), (3, 47, 8), (5, 48, 33), (7, 97, 64), (9, 100, 301), (17, 31, 576)]
DTYPES = [torch.bfloat16, torch.float32]


def runs_here(needs):
    if not needs:
        return True
    if platform.machine() != "x86_64" or not Path("/proc/cpuinfo").exists():
        return False
    return set(needs) <= set(Path("/proc/cpuinfo").read_text().split())


class Gemm:
    """The library with torch tensors for arrays."""

    def __init__(self, library):
        self.library = library
        self.panel = library.sf_gemm_panel()
        library.sf_packed_size_bf16.restype = ctypes.c_size_t
        library.sf_packed_size_f32.restype = ctypes.c_size_t

    def pack(self, w):
        half = w.dtype == torch.bfloat16
        size = self.library.sf_packed_size_bf16 if half else self.library.sf_packed_size_f32
        memory = torch.full((size(*w.shape) + 64,), 0xFF, dtype=torch.uint8)
        memory = memory[-memory.data_ptr() % 64 :]
        pack = self.library.sf_pack_bf16 if half else self.library.sf_pack_f32
        pack(pointer(w), *w.shape, pointer(memory))
        return memory

    def __call__(self, x, packed, n, y, bias=None, residual=None, columns=None):
        """y[:, :n] of all columns, or of the range ``columns``."""
        m, k = x.shape
        ldr = residual.stride(0) if residual is not None else 0
        head = [pointer(x), x.stride(0), m, pointer(packed), n, k]
        head += [pointer(bias), pointer(residual), ldr, pointer(y), y.stride(0)]
        if x.dtype == torch.bfloat16:
            f32 = int(y.dtype == torch.float32)
            self.library.sf_gemm_bf16(*head, f32, *(columns or (0, n)))
        else:
            self.library.sf_gemm_f32(*head, *(columns or (0, n)))
        return y


def pointer(tensor):
    return None if tensor is None else ctypes.c_void_p(tensor.data_ptr())


@pytest.fixture(scope="module", params=VARIANTS)
def gemm(request, tmp_path_factory):
    flags, needs = VARIANTS[request.param]
    if not runs_here(needs):
        pytest.skip(f"this CPU does not run {request.param}")
    try:
        compiler = build.compiler()
    except build.BuildFailed as error:
        pytest.skip(str(error))
    target = tmp_path_factory.mktemp(request.param) / "gemm.so"
    command = [compiler, "-std=gnu11", "-O3", "-Wall", "-Wextra", "-Werror", "-fPIC", *flags]
    subprocess.run([*command, "-shared", *map(str, SOURCES), "-o", str(target)], check=True)
    return Gemm(ctypes.CDLL(str(target)))


def random(generator, *shape, dtype, beyond=0):
    """Normal numbers; rows are ``beyond`` elements further apart, which are NaN."""
    tensor = torch.full((*shape[:-1], shape[-1] + beyond), float("nan"), dtype=dtype)
    tensor[..., : shape[-1]] = torch.randn(*shape, generator=generator)
    return tensor[..., : shape[-1]]


def exact(x, w, bias, residual):
    """The sums in float64, and the size of what was added up."""
    parts = [x.double() @ w.double().T]
    parts += [part.double() for part in (bias, residual) if part is not None]
    sizes = x.double().abs() @ w.double().abs().T
    return sum(parts), sizes + sum(part.abs() for part in parts[1:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_is_the_product_with_bias_and_residual(gemm, shape, dtype):
    m, n, k = shape
    generator = torch.Generator().manual_seed(n)
    x = random(generator, m, k, dtype=dtype, beyond=3)
    w = random(generator, n, k, dtype=dtype)
    packed = gemm.pack(w)
    for with_bias, with_residual, out in itertools.product((0, 1), (0, 1), {dtype, torch.float32}):
        bias = random(generator, n, dtype=dtype) if with_bias else None
        residual = random(generator, m, n, dtype=dtype, beyond=2) if with_residual else None
        y = torch.full((m, n + 5), 7.0, dtype=out)
        gemm(x, packed, n, y, bias, residual)
        wanted, size = exact(x, w, bias, residual)
        close = size * 2.0**-24 * (k + 2)
        if out == torch.bfloat16:
            close = close + (wanted.abs() + close) * 2.0**-8
        assert ((y[:, :n].double() - wanted).abs() <= close).all()
        assert (y[:, n:] == 7).all(), "wrote beyond the row"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [33, 1537])
def test_a_row_is_the_same_in_every_batch(gemm, k, dtype):
    generator = torch.Generator().manual_seed(k)
    n, most = 61, 300
    x = random(generator, most, k, dtype=dtype)
    packed = gemm.pack(random(generator, n, k, dtype=dtype))
    bias = random(generator, n, dtype=dtype)
    residual = random(generator, most, n, dtype=dtype)
    alone = torch.cat(
        [
            gemm(x[i : i + 1], packed, n, torch.empty(1, n), bias, residual[i : i + 1])
            for i in range(most)
        ]
    )
    for m in [*range(2, 34), 100, most]:
        for start in {0, most - m}:
            rows = slice(start, start + m)
            y = gemm(x[rows], packed, n, torch.empty(m, n), bias, residual[rows])
            assert torch.equal(y, alone[rows]), m


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_may_split_the_columns_anywhere(gemm, dtype):
    generator = torch.Generator().manual_seed(1)
    m, n, k = 11, 5 * gemm.panel + 3, 129
    x, w = random(generator, m, k, dtype=dtype), random(generator, n, k, dtype=dtype)
    packed = gemm.pack(w)
    whole = gemm(x, packed, n, torch.empty(m, n, dtype=dtype))
    for cut in range(0, n, gemm.panel):
        y = torch.zeros(m, n, dtype=dtype)
        gemm(x, packed, n, y, columns=(cut, n))
        assert (y[:, :cut] == 0).all()
        gemm(x, packed, n, y, columns=(0, cut))
        assert torch.equal(y, whole)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_residual_may_be_the_result(gemm, dtype):
    generator = torch.Generator().manual_seed(2)
    m, n, k = 13, 101, 77
    x, w = random(generator, m, k, dtype=dtype), random(generator, n, k, dtype=dtype)
    residual = random(generator, m, n, dtype=dtype)
    packed = gemm.pack(w)
    wanted = gemm(x, packed, n, torch.empty(m, n, dtype=dtype), residual=residual)
    stream = residual.clone()
    assert torch.equal(gemm(x, packed, n, stream, residual=stream), wanted)


def test_rounds_to_nearest_even(gemm):
    """The bfloat16 result is what torch rounds the float result to; ties come by construction."""
    generator = torch.Generator().manual_seed(3)
    m, n, k = 9, 100, 40
    x, w = (random(generator, rows, k, dtype=torch.bfloat16) for rows in (m, n))
    x[0], w[:, 1:], x[0, 0] = 0, 0, 1 / 256
    w[:, 0] = 1  # row 0: residual + 1/256, half a unit in the last place of 1.xx
    residual = (1 + torch.arange(m * n).reshape(m, n) % 128 / 128).bfloat16()
    packed = gemm.pack(w)
    floats = gemm(x, packed, n, torch.empty(m, n), residual=residual)
    halves = gemm(x, packed, n, torch.empty(m, n, dtype=torch.bfloat16), residual=residual)
    assert torch.equal(halves, floats.bfloat16())
    assert torch.equal(floats[0], residual[0].float() + 1 / 256)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity_stay_in_their_row(gemm, dtype):
    generator = torch.Generator().manual_seed(4)
    x, w = random(generator, 10, 9, dtype=dtype), random(generator, 50, 9, dtype=dtype).abs()
    x[2, 4], x[5, 8] = float("nan"), float("inf")
    y = gemm(x, gemm.pack(w), 50, torch.empty(10, 50, dtype=dtype))
    assert y[2].isnan().all()
    assert (y[5] == float("inf")).all()
    assert np.isfinite(np.delete(y.float().numpy(), [2, 5], axis=0)).all()


def test_the_benchmark_runs(tmp_path):
    try:
        compiler = build.compiler()
    except build.BuildFailed as error:
        pytest.skip(str(error))
    folder, target = SOURCES[0].parent, tmp_path / "bench"
    sources = [str(folder / "bench" / "gemm.c"), *map(str, SOURCES)]
    flags = ["-std=gnu11", "-O3", "-march=native", "-Werror", f"-I{folder}", "-pthread"]
    subprocess.run([compiler, *flags, *sources, "-o", str(target)], check=True)
    command = [str(target), "bf16", "1", "1", "1", "3"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split(":")[0].split() for line in said.splitlines()[1:]]
    assert rows == [["m", "1"], ["m", "3"]]
