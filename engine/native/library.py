"""The compiled library, loaded, with the threads that its calls share out their work to."""

from __future__ import annotations

import ctypes
import enum
import logging
import threading
import weakref
from pathlib import Path

import torch

from engine.attention.pool import untouched
from engine.native import build
from engine.native.records import LayerRecord, ProgramRecord, StepRecord, declare

log = logging.getLogger(__name__)

#: Formats that the kernels compute.
DTYPES = (torch.bfloat16, torch.float32)


class Native:
    """Calls wait for each other: they share threads and scratch memory. Threads end with it."""

    def __init__(self, file: Path, threads: int = 1) -> None:
        """Raises ``OSError`` when ``file`` is no library, ``ValueError`` for too many threads."""
        library = ctypes.CDLL(str(file))
        declare(library)
        self.file = file
        self._library = library
        self.threads = threads
        self._lock = threading.Lock()
        self._threads = library.sf_threads_new(threads)
        if not self._threads:
            raise ValueError(f"threads: the system gives no {threads} threads")
        # Not at exit: another thread of a process that gives up may still be in a call.
        weakref.finalize(self, library.sf_threads_free, self._threads).atexit = False

    def run(self, program: ProgramRecord, step: StepRecord) -> None:
        """One step of a model. The interpreter is free meanwhile. Raises ``MemoryError``."""
        with self._lock:
            failed = self._library.sf_run(program, step, self._threads)
        if failed:
            raise MemoryError("the step found no memory for its scores")

    def attend(self, layer: LayerRecord, step: StepRecord, dtype: torch.dtype) -> None:
        """Store keys and values of one layer, and attend. Raises ``MemoryError``."""
        bf16 = int(dtype == torch.bfloat16)
        with self._lock:
            failed = self._library.sf_attend(layer, step, bf16, self._threads)
        if failed:
            raise MemoryError("attention found no memory for its scores")

    def linear(
        self, x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None, rows: int
    ) -> torch.Tensor:
        """``x [m, columns]`` times what :meth:`pack` made of ``[rows, columns]``; ``[m, rows]``."""
        x = x.contiguous()
        out = x.new_empty(len(x), rows)
        with self._lock:
            self._library.sf_linear(
                x.data_ptr(), len(x), packed.data_ptr(), rows, x.shape[1],
                None if bias is None else bias.data_ptr(), out.data_ptr(),
                int(x.dtype == torch.bfloat16), self._threads,
            )  # fmt: skip
        return out

    def memory(self, nbytes: int) -> torch.Tensor:
        """Zeros in large pages where the system has them, not touched yet, aligned to 64."""
        memory = untouched(nbytes + 64)
        memory = memory[-memory.data_ptr() % 64 :][:nbytes]
        self._library.sf_large_pages(memory.data_ptr(), nbytes)
        return memory

    def packed_size(self, rows: int, columns: int, dtype: torch.dtype) -> int:
        """Bytes that :meth:`pack` fills for a weight ``[rows, columns]``."""
        size: int = getattr(self._library, f"sf_packed_size_{_suffix(dtype)}")(rows, columns)
        return size

    def pack(self, weight: torch.Tensor, target: torch.Tensor) -> None:
        """Lay out ``weight [rows, columns]`` for products, into bytes aligned to 64."""
        weight = weight.detach().contiguous()
        function = getattr(self._library, f"sf_pack_{_suffix(weight.dtype)}")
        function(weight.data_ptr(), *weight.shape, target.data_ptr())


class Kernels(enum.StrEnum):
    """What computes a step on a CPU: compiled C where it can be had, C or nothing, or torch."""

    AUTO = "auto"
    NATIVE = "native"
    TORCH = "torch"


def load(cache: Path, threads: int = 1, kernels: Kernels = Kernels.AUTO) -> Native | None:
    """The library for this machine, compiled at first use into ``cache``.

    ``None`` and a warning where that cannot be done, and for ``torch``; ``native`` raises
    ``ValueError`` instead.
    """
    if kernels is Kernels.TORCH:
        return None
    try:
        return Native(build.build(cache), threads)
    except (build.BuildFailed, OSError, AttributeError) as error:
        if kernels is Kernels.NATIVE:
            raise ValueError(f"kernels: native ones cannot be had: {error}") from error
        log.warning("torch computes, at half the speed, for lack of compiled kernels: %s", error)
        return None


def _suffix(dtype: torch.dtype) -> str:
    return "bf16" if dtype == torch.bfloat16 else "f32"
