"""``shortfirst engine``: serve a model, shortest predicted answers first."""

from __future__ import annotations

import typer

from serving.cli import engine_config
from serving.cli import engine_flags as flags


def engine(
    ctx: typer.Context,
    config: flags.Config = None,
    check: flags.Check = False,
    as_json: flags.AsJson = False,
    model: flags.Model = "smollm2-135m-instruct",
    revision: flags.Revision = "",
    trust_remote_code: flags.TrustRemoteCode = False,
    allow_pickle: flags.AllowPickle = False,
    max_model_len: flags.MaxModelLen = 0,
    served_model_name: flags.ServedModelName = "",
    policy: flags.Policy = "boost",
    boost: flags.Boost = "fast",
    lanes: flags.Lanes = None,
    max_wait: flags.MaxWait = 0.0,
    fair_tenants: flags.FairTenants = False,
    tenant_budget: flags.TenantBudget = None,
    rank_target: flags.RankTarget = "",
    rank_model: flags.RankModel = "",
    report: flags.Report = True,
    rank_deadline_ms: flags.RankDeadlineMs = 50.0,
    host: flags.Host = "127.0.0.1",
    grpc_port: flags.GrpcPort = 50052,
    http_port: flags.HttpPort = 8000,
    device: flags.Device = "auto",
    dtype: flags.Dtype = "auto",
    threads: flags.Threads = 0,
    kernels: flags.Kernels = "auto",
    max_num_seqs: flags.MaxNumSeqs = 16,
    max_num_batched_tokens: flags.MaxNumBatchedTokens = 0,
    max_waiting: flags.MaxWaiting = 10_000,
    block_size: flags.BlockSize = 0,
    kv_gib: flags.KvGib = 0.0,
    gpu_memory_utilization: flags.GpuMemoryUtilization = 0.9,
    cuda_graphs: flags.CudaGraphs = True,
    prefix_cache: flags.PrefixCache = True,
    swap_gib: flags.SwapGib = 0.0,
    preemption: flags.Preemption = "auto",
    admission: flags.Admission = "static",
    cost: flags.Cost = "",
    speculate: flags.Speculate = "off",
    draft_model: flags.DraftModel = "",
    max_drafts: flags.MaxDrafts = 8,
    drain_seconds: flags.DrainSeconds = 30.0,
    ready_file: flags.ReadyFile = None,
    otlp_endpoint: flags.OtlpEndpoint = "",
    log_level: flags.LogLevel = "info",
) -> None:
    """Serve a model over gRPC and an OpenAI-compatible API."""
    import os
    import socket

    # Before torch loads OpenMP: threads that spin while they wait for one that lost its core take
    # nine tenths of the speed on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

    from engine.core.config import AdmissionMode, PreemptionMode
    from engine.core.lanes import LaneConfig
    from engine.core.policies import Setting
    from engine.native.library import Kernels
    from serving import engine_options, engine_run, engine_setup, logs
    from serving.cli.console import UserError
    from serving.engine_server import EngineServerConfig, EngineStopped
    from serving.lanes_file import LaneSpec, choose_lanes
    from serving.otlp import otlp_config
    from serving.paths import Home
    from serving.rank_client import RankClientConfig
    from serving.reporter import ReporterConfig
    from serving.speculation_setup import Method, SpeculationSetup

    logs.configure(log_level)
    for option, value, known in (
        ("boost", boost, Setting),
        ("admission", admission, AdmissionMode),
        ("preemption", preemption, PreemptionMode),
        ("kernels", kernels, Kernels),
        ("speculate", speculate, Method),
    ):
        if value not in list(known):
            raise ValueError(f"--{option} must be one of {', '.join(known)}, got {value!r}")
    if max_wait < 0:
        raise ValueError(f"--max-wait must be at least 0 seconds, got {max_wait}")
    file = engine_config.file_of(ctx)
    plain = LaneSpec(LaneConfig("default", max_wait=max_wait or None), policy, Setting(boost))
    setup = engine_setup.EngineSetup(
        model=model,
        name=served_model_name,
        revision=revision,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
        max_model_len=max_model_len,
        lanes=choose_lanes(lanes, file.lanes, plain),
        fairness=engine_options.fairness(fair_tenants, tenant_budget or (), file.tenants),
        admission=AdmissionMode(admission),
        preemption=PreemptionMode(preemption),
        prefix_cache=prefix_cache,
        device=device,
        dtype=dtype,
        threads=threads,
        kernels=Kernels(kernels),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_waiting=max_waiting,
        block_size=block_size,
        kv_gib=kv_gib,
        gpu_memory_utilization=gpu_memory_utilization,
        cuda_graphs=cuda_graphs,
        swap_gib=swap_gib,
        cost=engine_options.cost_model(cost),
        speculation=SpeculationSetup(Method(speculate), draft_model, max_drafts),
    )
    reporter = ReporterConfig(name=f"{socket.gethostname()}:{http_port}"[:256])
    served = EngineServerConfig(
        host=host,
        grpc_port=grpc_port,
        http_port=http_port,
        drain_s=drain_seconds,
        rank=RankClientConfig(rank_target, rank_deadline_ms / 1000, reporter=reporter)
        if rank_target
        else None,
        rank_model=rank_model,
        report=report,
    )
    otlp = otlp_config(otlp_endpoint, os.environ)
    if check:
        engine_config.show(ctx, setup, as_json=as_json)
        return
    try:
        engine_run.serve(setup, served, Home.resolve().cache, otlp=otlp, ready_file=ready_file)
    except EngineStopped as error:
        raise UserError(str(error), status=1) from None
