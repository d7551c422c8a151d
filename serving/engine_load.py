"""From an engine's setup to its model in memory: found, converted, kernels compiled, loaded."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch

from engine import models
from engine.attention.cuda import CudaPaged
from engine.backend import ThreadsConfig
from engine.devices import resolve_device, resolve_dtype
from engine.native import library
from engine.native.library import Kernels
from serving import cores
from serving.engine_setup import EngineSetup

log = logging.getLogger(__name__)


def load(setup: EngineSetup, cache: Path, draft: bool = False) -> models.Model:
    """Find the model, or its draft model, get or convert it at first use, and load it. Raises
    ``ValueError``."""
    threads = setup.threads or max(1, cores.usable() - 1)
    ThreadsConfig(threads).apply()
    source, name = setup.source, setup.name
    if draft:
        source, name = replace(source, model=setup.speculation.draft_model, revision=""), ""
    device = resolve_device(setup.device)
    dtype = resolve_dtype(setup.dtype, device)
    with ThreadPoolExecutor(1) as other:
        # At first use both take their time: the kernels' compiler, and converting a model.
        kernels = None
        if device.type == "cpu":
            kernels = other.submit(library.load, cache / "native", threads, setup.kernels)
        folder = source.folder(cache, str(dtype).removeprefix("torch."), log.info)
        native = kernels.result() if kernels else None
    model = models.load(
        folder,
        name=name or source.default_name,
        device=device,
        dtype=dtype,
        max_model_len=setup.max_model_len,
        trust_remote_code=source.trust_remote_code,
        allow_pickle=source.allow_pickle,
        native=native,
    )
    check_attention(model, setup.kernels)
    return model


def check_attention(model: models.Model, kernels: Kernels) -> None:
    """Nobody takes a GPU to be served slowly on it.

    Raises ``ValueError`` where torch has no fitting kernel, unless the operator said ``torch``, or
    float32, which is about exactness.
    """
    if isinstance(model.attention, CudaPaged) and kernels is not Kernels.TORCH:
        obstacle = model.attention.obstacle
        if obstacle and (model.dtype != torch.float32 or kernels is Kernels.NATIVE):
            raise ValueError(
                f"device: no attention kernel of this torch fits: {obstacle}; --kernels torch "
                "serves all the same, slowly"
            )
