"""What ``bench peers`` found, as tables, lines and JSON. No prompt is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.bench.roofline import Machine, ModelSize, prefill_seconds, serve_seconds
from serving.peers.measures import Measured, Ratio, Row
from serving.peers.servers import OURS, PEER, Terms
from serving.peers.session import Starts
from serving.peers.work import WorkConfig

#: What the project promises of a start with a converted model, seconds.
_START_S = 10.0
#: Of them, prefill alone has the first.
_LATENCIES = ("ttft", "tpot", "itl_p99")


@dataclass(frozen=True, slots=True)
class Found:
    """All of a comparison. ``versions`` of what was run, by name; ``processor`` as it calls itself;
    ``prompts``: what they were."""

    terms: Terms
    work: WorkConfig
    rows: Sequence[Row]
    starts: Starts
    machine: Machine
    size: ModelSize
    versions: Mapping[str, str]
    processor: str
    prompts: str

    def bound(self, row: Row) -> float:
        """Tokens per second that the machine could do at best in this workload."""
        run = row.runs[OURS][0]
        work = row.workload
        prompt = run.prompt_tokens / work.requests
        if work.prefill:
            return prompt / prefill_seconds(self.machine, self.size, prompt)
        least = serve_seconds(
            self.machine, self.size, work.requests, work.concurrency, prompt, work.output_tokens
        )
        return run.output_tokens / least


THROUGHPUT = (
    "clients", OURS, PEER, "ratio", "bound", f"{OURS} of it", f"{PEER} of it", f"cores {OURS}",
    f"cores {PEER}",
)  # fmt: skip
LATENCY = ("clients", "measure", OURS, PEER, "ratio")


def throughput_rows(found: Found) -> list[list[object]]:
    """Tokens per second, the bound, and the cores that were kept busy."""
    table: list[list[object]] = []
    for row in found.rows:
        bound = found.bound(row)
        ours, peer = row.median(OURS, "throughput"), row.median(PEER, "throughput")
        table.append(
            [
                row.workload.name, f"{ours:.1f}", f"{peer:.1f}",
                ratio(row.ratio("throughput", OURS, PEER)), f"{bound:.0f}",
                f"{ours / bound:.0%}", f"{peer / bound:.0%}",
                f"{row.median(OURS, 'cores'):.2f}", f"{row.median(PEER, 'cores'):.2f}",
            ]
        )  # fmt: skip
    return table


def latency_rows(found: Found) -> list[list[object]]:
    """Milliseconds."""
    table: list[list[object]] = []
    for row in found.rows:
        for measure in _LATENCIES[:1] if row.workload.prefill else _LATENCIES:
            ours, peer = row.median(OURS, measure), row.median(PEER, measure)
            table.append(
                [
                    row.workload.name, measure.upper().replace("_", " "), f"{ours * 1e3:.1f}",
                    f"{peer * 1e3:.1f}", ratio(row.ratio(measure, OURS, PEER)),
                ]
            )  # fmt: skip
    return table


def ratio(value: Ratio) -> str:
    """``median (least-most)``, one number of a single pair."""
    if value.low == value.high:
        return f"{value.median:.2f}x"
    return f"{value.median:.2f}x ({value.low:.2f}-{value.high:.2f})"


def verdicts(found: Found) -> list[tuple[bool, str]]:
    """Whether each promise was kept, and what it is, in words."""
    lines: list[tuple[bool, str]] = []
    for row in found.rows:
        for measure in ("throughput", "ttft", *(() if row.workload.prefill else ("tpot",))):
            value = row.ratio(measure, OURS, PEER)
            what = measure if measure == "throughput" else measure.upper()
            where = row.workload.name if row.workload.prefill else f"{row.workload.name} clients"
            lines.append((value.median >= 1.0, f"{where}, {what}: {ratio(value)}"))
    ours = max(found.starts.seconds[OURS])
    lines.append(
        (ours <= _START_S, f"first token {ours:.1f} s after the start (<= {_START_S:.0f})")
    )
    return lines


def facts(found: Found) -> list[str]:
    """What one has to know to read the tables."""
    terms, machine = found.terms, found.machine
    compute = ",".join(map(str, terms.computing))
    cores = ",".join(map(str, terms.cores))
    starts = "; ".join(
        f"{name} {', '.join(f'{value:.1f}' for value in values)} s"
        for name, values in found.starts.seconds.items()
    )
    return [
        f"{found.processor}; cores {cores} for either server and for the client; {terms.threads} "
        f"compute (peer bound to {compute}); {terms.dtype}, greedy, {terms.max_num_seqs} slots, "
        f"no prefix cache; " + ", ".join(f"{k} {v}" for k, v in found.versions.items()),
        f"Prompts: {found.prompts}; the server that waits is paused",
        f"Roofline of {terms.threads} thread(s): {machine.bandwidth / 1e9:.1f} GB/s read, "
        f"{machine.flops / 1e9:.0f} GFLOP/s; weights "
        f"{found.size.parameters * found.size.itemsize / 1e6:.0f} MB, keys and values "
        f"{found.size.kv_bytes:,} bytes a token",
        f"Start to first token: {starts}",
    ]


def as_dict(found: Found) -> dict[str, Any]:
    """All of it, for JSON."""
    return {
        "processor": found.processor,
        "versions": dict(found.versions),
        "terms": asdict(found.terms) | {"model": found.terms.model.name},
        "work": asdict(found.work),
        "prompts": found.prompts,
        "roofline": asdict(found.machine) | {"model": asdict(found.size)},
        "starts": found.starts.seconds,
        "workloads": [
            {
                **asdict(row.workload),
                "bound": found.bound(row),
                "runs": {name: [asdict(run) for run in runs] for name, runs in row.runs.items()},
                "ratios": {name: asdict(row.ratio(name, OURS, PEER)) for name in _MEASURES},
            }
            for row in found.rows
        ],
        "verdicts": [{"met": met, "what": text} for met, text in verdicts(found)],
    }


_MEASURES = tuple(name for name in Measured.__dataclass_fields__ if not name.endswith("_tokens"))
