"""``shortfirst engine``: serve a model, shortest predicted answers first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.cli import engine_config


def engine(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            callback=engine_config.load,
            is_eager=True,
            help="TOML file of any of these options, with underscores, of [[lane]]s and of "
            "[tenants]; the command line goes first.",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Print what would run, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print JSON.")] = False,
    model: Annotated[
        str,
        typer.Option(
            help="The bundled model, a folder with a Hugging Face causal LM, a .gguf file "
            "(converted once), or an id on the hub; of there, a GGUF file is OWNER/NAME/FILE.gguf. "
            "HF_HUB_OFFLINE=1 uses what was downloaded before."
        ),
    ] = "smollm2-135m-instruct",
    revision: Annotated[
        str, typer.Option(help="Branch, tag or commit of a model on the hub. Default: main.")
    ] = "",
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code", help="Run Python code that comes with the model. Read it first."
        ),
    ] = False,
    allow_pickle: Annotated[
        bool,
        typer.Option(
            "--allow-pickle",
            help="Load pytorch_model.bin where there are no safetensors. Unpickling can run code.",
        ),
    ] = False,
    max_model_len: Annotated[
        int,
        typer.Option(
            help="Tokens of prompt and answer that one request may have; 0: as many as the model "
            "takes. Less lets a small KV cache serve a model of long context."
        ),
    ] = 0,
    served_model_name: Annotated[
        str, typer.Option(help="What clients call the model. Default: its own name.")
    ] = "",
    policy: Annotated[
        str,
        typer.Option(
            help="boost, fcfs, ranked, ltr, mlfq, srpt_predicted, gittins, tie, prompt_sjf or "
            "priority; options after a colon, as in ltr:starvation=100."
        ),
    ] = "boost",
    boost: Annotated[
        str, typer.Option(help="How much tail boost may lend to the mean: safe, balanced or fast.")
    ] = "fast",
    lanes: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of lanes, each with a policy, a share and objectives of its own. "
            "Default: one lane."
        ),
    ] = None,
    max_wait: Annotated[
        float, typer.Option(help="Seconds after which a waiting request goes first; 0: never.")
    ] = 0.0,
    fair_tenants: Annotated[
        bool,
        typer.Option(
            "--fair-tenants/--any-tenant",
            help="Serve the tenant that was served least; the policy orders within a tenant.",
        ),
    ] = False,
    tenant_budget: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=RATE:BURST, tokens per second and tokens saved at most; may be repeated. "
            "* is every tenant without one."
        ),
    ] = None,
    rank_target: Annotated[
        str, typer.Option(help="host:port of a rank service. Default: none, all go unscored.")
    ] = "",
    rank_model: Annotated[
        str,
        typer.Option(
            help="The served model under which the rank service knows this one. Default: the "
            "service's own."
        ),
    ] = "",
    report: Annotated[
        bool,
        typer.Option(
            help="Tell the rank service how long answers became. Off for benchmarks that impose "
            "lengths."
        ),
    ] = True,
    rank_deadline_ms: Annotated[
        float, typer.Option(help="How long a request waits for its forecast.")
    ] = 50.0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    grpc_port: Annotated[int, typer.Option(help="gRPC port; 0 picks a free one.")] = 50052,
    http_port: Annotated[
        int, typer.Option(help="Port of the OpenAI-compatible API and /metrics; 0: a free one.")
    ] = 8000,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    threads: Annotated[
        int, typer.Option(help="Threads of a step on a CPU; 0: all cores but one.")
    ] = 0,
    kernels: Annotated[
        str,
        typer.Option(
            help="What computes on a CPU: native (C, compiled at first use by the system's "
            "compiler), torch, or auto: native where there is a compiler."
        ),
    ] = "auto",
    max_num_seqs: Annotated[int, typer.Option(help="Requests that run at once.")] = 16,
    max_num_batched_tokens: Annotated[
        int, typer.Option(help="Tokens of one step, prefill chunks and decodes together.")
    ] = 512,
    max_waiting: Annotated[
        int, typer.Option(help="Requests that may wait; one more is refused with 429.")
    ] = 10_000,
    block_size: Annotated[
        int,
        typer.Option(
            help="Tokens per KV block: small ones waste less and read slower. 0: 32, on a GPU what "
            "its kernel asks for, 256 with FlashAttention 2."
        ),
    ] = 0,
    kv_gib: Annotated[
        float,
        typer.Option(
            help="KV cache in GiB; 0: 0.5 on a CPU, on a GPU what --gpu-memory-utilization leaves."
        ),
    ] = 0.0,
    gpu_memory_utilization: Annotated[
        float,
        typer.Option(
            help="Share of a GPU's memory that may be taken: weights, the largest step, KV cache, "
            "and what others use of it."
        ),
    ] = 0.9,
    cuda_graphs: Annotated[
        bool,
        typer.Option(
            "--cuda-graphs/--eager",
            help="On a GPU, record the decode steps at start and repeat them; quicker, and takes "
            "seconds and some memory.",
        ),
    ] = True,
    prefix_cache: Annotated[
        bool, typer.Option(help="Keep what requests that begin alike have in common.")
    ] = True,
    swap_gib: Annotated[
        float, typer.Option(help="Host memory for preempted requests in GiB; 0: they recompute.")
    ] = 0.0,
    preemption: Annotated[
        str, typer.Option(help="auto (by cost), recompute or swap, which needs --swap-gib.")
    ] = "auto",
    admission: Annotated[
        str,
        typer.Option(
            help="When a request may join those that run: off (it fits), static (and a little "
            "stays free), predicted (so will everybody's forecast peak)."
        ),
    ] = "static",
    cost: Annotated[
        str,
        typer.Option(
            help="Seconds as BASE,DECODE,PREFILL[,CONTEXT[,SWAP]]: of a step, and per token "
            "decoded, prefilled, attended to, swapped. Default: measured at start."
        ),
    ] = "",
    speculate: Annotated[
        str,
        typer.Option(
            help="Guess tokens ahead and verify them in one step: off, ngram (what followed the "
            "last tokens when they were said before: for answers that repeat their prompt) or "
            "model (--draft-model). Answers stay the same; as load rises, fewer are guessed, down "
            "to none."
        ),
    ] = "off",
    draft_model: Annotated[
        str,
        typer.Option(
            help="For --speculate model: a smaller model of the same tokenizer, a folder or an id "
            "on the hub."
        ),
    ] = "",
    max_drafts: Annotated[
        int, typer.Option(help="Tokens guessed ahead of a request at most, 1 to 32.")
    ] = 8,
    drain_seconds: Annotated[
        float, typer.Option(help="How long a stop waits for streams under way.")
    ] = 30.0,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            help="Written once the engine answers: {pid, policy, cost, grpc, http, metrics} "
            "as JSON."
        ),
    ] = None,
    otlp_endpoint: Annotated[
        str,
        typer.Option(
            help="Where to send OpenTelemetry traces, as http://127.0.0.1:4318 (OTLP over HTTP). "
            "Default: where the OTEL_ variables say, else nowhere."
        ),
    ] = "",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve a model over gRPC and an OpenAI-compatible API."""
    import os

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
    served = EngineServerConfig(
        host=host,
        grpc_port=grpc_port,
        http_port=http_port,
        drain_s=drain_seconds,
        rank=RankClientConfig(rank_target, rank_deadline_ms / 1000) if rank_target else None,
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
