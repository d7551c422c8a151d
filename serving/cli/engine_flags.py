"""What ``shortfirst engine`` can be told: one name an option, in the order of its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from serving.cli import engine_config

Config = Annotated[
    Path | None,
    typer.Option(
        callback=engine_config.load,
        is_eager=True,
        help="TOML file of these options, with underscores, and of tables of lanes and tenants; "
        "the command line goes first.",
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Print what would run, and end.")]
AsJson = Annotated[bool, typer.Option("--json", help="With --check: print JSON.")]
Model = Annotated[
    str,
    typer.Option(
        help="The bundled model, a folder with a Hugging Face causal LM, a .gguf file "
        "(converted once), or an id on the hub; of there, a GGUF file is OWNER/NAME/FILE.gguf. "
        "HF_HUB_OFFLINE=1 uses what was downloaded before."
    ),
]
Revision = Annotated[
    str, typer.Option(help="Branch, tag or commit of a model on the hub. Default: main.")
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code", help="Run Python code that comes with the model. Read it first."
    ),
]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Load pytorch_model.bin where there are no safetensors. Unpickling can run code.",
    ),
]
MaxModelLen = Annotated[
    int,
    typer.Option(
        help="Tokens of prompt and answer that one request may have; 0: as many as the model "
        "takes. Less lets a small KV cache serve a model of long context."
    ),
]
ServedModelName = Annotated[
    str, typer.Option(help="What clients call the model. Default: its own name.")
]
Policy = Annotated[
    str,
    typer.Option(
        help="boost, fcfs, ranked, ltr, mlfq, srpt_predicted, gittins, tie, prompt_sjf or "
        "priority; options after a colon, as in ltr:starvation=100."
    ),
]
Boost = Annotated[
    str, typer.Option(help="How much tail boost may lend to the mean: safe, balanced or fast.")
]
Lanes = Annotated[
    Path | None,
    typer.Option(
        help="TOML file of lanes, each with a policy, a share and objectives of its own. "
        "Default: one lane."
    ),
]
MaxWait = Annotated[
    float, typer.Option(help="Seconds after which a waiting request goes first; 0: never.")
]
FairTenants = Annotated[
    bool,
    typer.Option(
        "--fair-tenants/--any-tenant",
        help="Serve the tenant that was served least; the policy orders within a tenant.",
    ),
]
TenantBudget = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=RATE:BURST, tokens per second and tokens saved at most; may be repeated. "
        "* is every tenant without one."
    ),
]
RankTarget = Annotated[
    str, typer.Option(help="host:port of a rank service. Default: none, all go unscored.")
]
RankModel = Annotated[
    str,
    typer.Option(
        help="The served model under which the rank service knows this one. Default: the "
        "service's own."
    ),
]
Report = Annotated[
    bool,
    typer.Option(
        help="Tell the rank service how long answers became. Off for benchmarks that impose "
        "lengths."
    ),
]
RankDeadlineMs = Annotated[float, typer.Option(help="How long a request waits for its forecast.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
GrpcPort = Annotated[int, typer.Option(help="gRPC port; 0 picks a free one.")]
HttpPort = Annotated[
    int, typer.Option(help="Port of the OpenAI-compatible API and /metrics; 0: a free one.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")]
Threads = Annotated[int, typer.Option(help="Threads of a step on a CPU; 0: all cores but one.")]
Kernels = Annotated[
    str,
    typer.Option(
        help="On a CPU: native (C, compiled at first use by the system's compiler), torch, or "
        "auto: native where there is a compiler. On a GPU auto refuses where torch has no fast "
        "attention for the model, and torch serves all the same, slowly."
    ),
]
MaxNumSeqs = Annotated[int, typer.Option(help="Requests that run at once.")]
MaxNumBatchedTokens = Annotated[
    int,
    typer.Option(
        help="Tokens of one step, prefill chunks and decodes together; 0: 256 on a CPU, 2048 on a "
        "GPU. Fewer hold the streams up for less, more let a burst of prompts begin together."
    ),
]
MaxWaiting = Annotated[
    int, typer.Option(help="Requests that may wait; one more is refused with 429.")
]
BlockSize = Annotated[
    int,
    typer.Option(
        help="Tokens per KV block: small ones waste less and read slower. 0: 32, on a GPU what "
        "its kernel asks for, 256 with FlashAttention 2."
    ),
]
KvGib = Annotated[
    float,
    typer.Option(
        help="KV cache in GiB; 0: 0.5 on a CPU, on a GPU what --gpu-memory-utilization leaves."
    ),
]
GpuMemoryUtilization = Annotated[
    float,
    typer.Option(
        help="Share of a GPU's memory that may be taken: weights, the largest step, KV cache, "
        "and what others use of it."
    ),
]
CudaGraphs = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs/--eager",
        help="On a GPU, record the decode steps at start and repeat them; quicker, and takes "
        "seconds and some memory.",
    ),
]
PrefixCache = Annotated[
    bool, typer.Option(help="Keep what requests that begin alike have in common.")
]
SwapGib = Annotated[
    float, typer.Option(help="Host memory for preempted requests in GiB; 0: they recompute.")
]
Preemption = Annotated[
    str, typer.Option(help="auto (by cost), recompute or swap, which needs --swap-gib.")
]
Admission = Annotated[
    str,
    typer.Option(
        help="When a request may join those that run: off (it fits), static (and a little "
        "stays free), predicted (so will everybody's forecast peak)."
    ),
]
Cost = Annotated[
    str,
    typer.Option(
        help="Seconds as BASE,DECODE,PREFILL[,CONTEXT[,SWAP]]: of a step, and per token "
        "decoded, prefilled, attended to, swapped. Default: measured at start."
    ),
]
Speculate = Annotated[
    str,
    typer.Option(
        help="Guess tokens ahead and verify them in one step: off, ngram (what followed the "
        "last tokens when they were said before: for answers that repeat their prompt) or "
        "model (--draft-model). Answers stay the same; as load rises, fewer are guessed, down "
        "to none."
    ),
]
DraftModel = Annotated[
    str,
    typer.Option(
        help="For --speculate model: a smaller model of the same tokenizer, a folder or an id "
        "on the hub."
    ),
]
MaxDrafts = Annotated[int, typer.Option(help="Tokens guessed ahead of a request at most, 1 to 32.")]
DrainSeconds = Annotated[float, typer.Option(help="How long a stop waits for streams under way.")]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        help="Written once the engine answers: {pid, policy, cost, grpc, http, metrics} as JSON."
    ),
]
OtlpEndpoint = Annotated[
    str,
    typer.Option(
        help="Where to send OpenTelemetry traces, as http://127.0.0.1:4318 (OTLP over HTTP). "
        "Default: where the OTEL_ variables say, else nowhere."
    ),
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]
