"""Compiled attention: against torch's, and against itself under another batch, chunks, threads."""

import random

import pytest
import torch

from engine.attention.interface import Spec, StepContext
from engine.attention.native import NativePaged
from engine.attention.pool import KVShape
from engine.attention.torch_paged import TorchPaged
from engine.core.plan import Plan, Step
from engine.native import build, library
from tests.engine.torch.native_parts import CPU, one_by_one, ragged, whole

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}


@pytest.fixture
def compiled(native):
    if native is None:
        pytest.skip("no C compiler")
    return NativePaged(native)


class Sequences:
    """Random queries, keys and values of some sequences, and random blocks for them."""

    def __init__(self, lengths, heads, kv_heads, dim, block, dtype=torch.float32, seed=0):
        torch.manual_seed(seed)
        self.lengths = lengths
        self.q = [torch.randn(n, heads, dim).to(dtype) for n in lengths]
        self.k, self.v = (
            [torch.randn(n, kv_heads, dim).to(dtype) for n in lengths] for _ in range(2)
        )
        tables = [-(-n // block) for n in lengths]
        blocks = list(range(sum(tables) + 3))
        random.Random(seed).shuffle(blocks)
        self.tables = [tuple(blocks.pop() for _ in range(n)) for n in tables]
        self.shape = KVShape(1, kv_heads, dim, sum(tables) + 3, block)
        self.dtype = dtype

    def attended(self, backend, rounds, spec):
        """Outputs per sequence; ``rounds`` of ``{sequence: (first, end)}`` that run together."""
        pool = backend.pool(self.shape, self.dtype, CPU)
        out = [torch.zeros_like(q) for q in self.q]
        for number, parts in enumerate(rounds):
            plan = Plan(number, tuple(
                Step(str(i), first, end - first, self.tables[i], end == self.lengths[i])
                for i, (first, end) in parts.items()
            ))  # fmt: skip
            tokens = {str(i): [0] * n for i, n in enumerate(self.lengths)}
            batch = backend.batch(plan, tokens, self.shape, CPU)
            # Decodes come first, as packed.
            order = sorted(parts, key=lambda i: not plan.steps[list(parts).index(i)].decodes)
            q, k, v = (
                torch.cat([x[i][slice(*parts[i])] for i in order]) for x in (self.q, self.k, self.v)
            )
            found = backend.attend(q, k, v, StepContext(pool, batch, backend), 0, spec)
            row = 0
            for i in order:
                first, end = parts[i]
                out[i][first:end] = found[row : row + end - first]
                row += end - first
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "dim", "block"),
    [(9, 3, 64, 32), (4, 4, 80, 16), (8, 1, 96, 8), (14, 2, 128, 32), (4, 2, 256, 16),
     (6, 2, 24, 4), (3, 3, 16, 5), (13, 1, 64, 1), (16, 16, 32, 48)],
)  # fmt: skip
def test_it_computes_what_torch_does(compiled, dtype, heads, kv_heads, dim, block):
    lengths = [1, 7, 16, 33, 70, 101]
    work = Sequences(lengths, heads, kv_heads, dim, block, dtype)
    spec = Spec(dim**-0.5)
    expected = work.attended(TorchPaged(), whole(lengths), spec)
    for rounds in (whole(lengths), one_by_one(lengths), ragged(lengths)):
        for found, right in zip(work.attended(compiled, rounds, spec), expected, strict=True):
            tolerance = TOLERANCE[dtype]
            torch.testing.assert_close(found, right, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block", [5, 16, 32])
@pytest.mark.parametrize(
    "extra",
    [{"window": 1}, {"window": 20}, {"window": 64}, {"softcap": 3.0}, {"sinks": True},
     {"window": 9, "softcap": 5.0, "sinks": True}],
    ids=lambda extra: "+".join(extra),
)  # fmt: skip
def test_windows_soft_caps_and_sinks(compiled, dtype, block, extra):
    lengths = [2, 31, 90]
    work = Sequences(lengths, 6, 2, 32, block, dtype)
    if "sinks" in extra:
        extra = extra | {"sinks": torch.randn(6)}
    spec = Spec(0.2, **extra)
    expected = work.attended(TorchPaged(), whole(lengths), spec)
    for rounds in (whole(lengths), one_by_one(lengths)):
        for found, right in zip(work.attended(compiled, rounds, spec), expected, strict=True):
            tolerance = TOLERANCE[dtype]
            torch.testing.assert_close(found, right, atol=tolerance, rtol=tolerance)


def test_a_soft_cap_leaves_what_is_hidden_hidden(compiled):
    """In bfloat16 a block of one slot has another that nobody uses; small caps make all equal."""
    lengths = [40]
    work = Sequences(lengths, 2, 2, 32, 1, torch.bfloat16)
    spec = Spec(0.2, softcap=0.01)
    expected = work.attended(TorchPaged(), whole(lengths), spec)[0]
    found = work.attended(compiled, whole(lengths), spec)[0]
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spec", [Spec(0.125), Spec(0.125, window=21, softcap=4.0)], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads", "block"), [(9, 3, 32), (4, 4, 4), (14, 2, 5)])
def test_a_row_has_the_same_bits_however_it_came(compiled, dtype, spec, heads, kv_heads, block):
    lengths = [1, 12, 40, 77, 130]
    work = Sequences(lengths, heads, kv_heads, 64, block, dtype, seed=1)
    expected = work.attended(compiled, whole(lengths), spec)
    ways = [[{i: (0, n)} for i, n in enumerate(lengths)], one_by_one(lengths)]
    ways += [ragged(lengths, seed) for seed in range(3)]
    for rounds in ways:
        found = work.attended(compiled, rounds, spec)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_what_does_not_fit_the_cache_is_refused(compiled):
    """A network may compute other formats or shapes in some layer than its configuration says."""
    lengths = [5]
    work = Sequences(lengths, 4, 2, 16, 8, torch.bfloat16)
    for name, wrong in (("q", torch.float32), ("k", torch.float32), ("v", torch.float32)):
        right = getattr(work, name)
        setattr(work, name, [x.to(wrong) for x in right])
        with pytest.raises(NotImplementedError, match=r"torch\.float32"):
            work.attended(compiled, whole(lengths), Spec(0.25))
        setattr(work, name, right)
    work.k, work.v = ([x[:, :1] for x in each] for each in (work.k, work.v))
    with pytest.raises(NotImplementedError, match=r"keys \[5, 1, 16\]"):
        work.attended(compiled, whole(lengths), Spec(0.25))


def test_threads_change_no_bit(compiled, native):
    lengths = [5, 64, 129, 300]
    work = Sequences(lengths, 9, 3, 64, 32, torch.bfloat16, seed=2)
    expected = work.attended(compiled, whole(lengths), Spec(0.125))
    for threads in (2, 3, 5):
        many = NativePaged(library.Native(native.file, threads))
        for rounds in (whole(lengths), ragged(lengths)):
            found = work.attended(many, rounds, Spec(0.125))
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_nan_stays_in_its_sequence(compiled):
    lengths = [20, 50, 33]
    work = Sequences(lengths, 9, 3, 64, 16)
    expected = work.attended(compiled, whole(lengths), Spec(0.125))
    work.v[1][48] = float("nan")
    work.q[0][3, 2] = float("nan")
    found = work.attended(compiled, one_by_one(lengths), Spec(0.125))
    assert torch.equal(found[2], expected[2])
    assert found[1][48:].isnan().all(0).any()
    assert found[0][3, 2].isnan().all()
    assert torch.equal(found[0][4:], expected[0][4:])


def test_blocks_are_copied_moved_wiped_and_looked_through(compiled):
    shape = KVShape(layers=3, kv_heads=2, head_dim=6, num_blocks=9, block_size=5)
    pool = compiled.pool(shape, torch.bfloat16, CPU)
    assert all(part.count_nonzero() == 0 for part in pool.parts)
    torch.manual_seed(0)
    for part in pool.parts:
        part.normal_()
    before = [part.clone() for part in pool.parts]
    pool.copy(torch.tensor([1, 2]), torch.tensor([5, 7]))
    lifted = pool.lift(torch.tensor([3, 4]))
    assert lifted.shape == (2, *pool.block)
    pool.lay(torch.tensor([8, 0]), lifted)
    for part, old in zip(pool.parts, before, strict=True):
        sources = torch.tensor([4, 1, 2, 3, 4, 1, 6, 2, 3])
        assert torch.equal(part, old[sources])
    pool.parts[2][6, 17] = float("nan")
    pool.parts[0][3, 0] = float("inf")
    broken = pool.broken(torch.tensor([1, 3, 6]))
    assert broken.tolist() == [3, 6]
    pool.wipe(broken)
    assert pool.broken(torch.arange(9)).tolist() == []
    assert all(part[broken].count_nonzero() == 0 for part in pool.parts)


def test_a_head_that_is_no_whole_number_of_pairs_is_refused(compiled):
    with pytest.raises(ValueError, match=r"kv\.head_dim must be a multiple of 2"):
        compiled.pool(KVShape(1, 1, 5, 1, 4), torch.bfloat16, CPU)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_instructions_of_this_cpu(tmp_path, monkeypatch, dtype):
    """As on a machine that has none of them, compiled from the same source."""
    monkeypatch.setattr(build, "FLAGS", (("-O2",),))
    plain = library.load(tmp_path)
    if plain is None:
        pytest.skip("no C compiler")
    lengths = [1, 16, 40, 77]
    for heads, kv_heads, dim, block in ((9, 3, 64, 32), (4, 2, 24, 5)):
        work = Sequences(lengths, heads, kv_heads, dim, block, dtype)
        expected = work.attended(TorchPaged(), whole(lengths), Spec(dim**-0.5))
        first = work.attended(NativePaged(plain), whole(lengths), Spec(dim**-0.5))
        again = work.attended(NativePaged(plain), ragged(lengths), Spec(dim**-0.5))
        for one, two, right in zip(first, again, expected, strict=True):
            torch.testing.assert_close(one, right, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
            assert torch.equal(one, two)
