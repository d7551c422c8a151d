"""Where ``bench paper`` differs from the papers, and why: sentences with the numbers of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.bench.contest import PaperConfig
    from engine.bench.paper import Paper, Row


def differences(found: Paper, config: PaperConfig) -> list[str]:
    """Only what the numbers bear out is said."""
    return [
        line
        for line in (
            _measure(found.burst),
            _classes(found, config),
            _load(found, config),
            _first(found, config),
            _swapping(found, config),
            _sustained(found, config),
            "Forecasts here are honest noise of one tau on recorded lengths; the papers' are their "
            "own predictors', on answers of the model they serve. Their engines are of 2023 and "
            "2024, this one is a cost model.",
        )
        if line
    ]


def _of(rows: tuple[Row, ...], policy: str) -> Row | None:
    return next((row for row in rows if row.policy == policy), None)


def _measure(burst: tuple[Row, ...]) -> str:
    row = _of(burst, "ltr")
    if row is None:
        return ""
    return (
        f"Per-token latency is E2EL over output tokens, so short answers decide it: in the burst "
        f"ltr gains {row.gain.median:.2f}x of it, and {row.e2el_gain.median:.2f}x of mean E2EL. "
        f"The papers print the first and not the second. p99 E2EL of a burst is the time it takes "
        f"in all, whatever the order ({row.p99_gain.median:.2f}x)."
    )


def _classes(found: Paper, config: PaperConfig) -> str:
    return (
        f"Ten classes of {config.bucket} tokens are right for {found.class_right:.0%} of the "
        f"requests and have a tau of {found.class_tau:.2f} with the lengths (the paper: 85.1% and "
        "0.24): most answers fall in the first, and nothing is known of their order."
    )


def _load(found: Paper, config: PaperConfig) -> str:
    quiet = [
        rate
        for rate, rows in found.poisson.items()
        if all(abs(row.gain.median - 1.0) < 0.02 for row in rows)
    ]
    if not quiet:
        return ""
    return (
        f"Full batches can do about {found.capacity:.0f} requests/s here. Up to {max(quiet):g} "
        f"nothing waits and no order gains anything; what is gained at {config.rates[-1]:g} is a "
        f"matter of how far above capacity that is, and for how long: {config.seconds:g} s. Gains "
        "at one rate on two engines are gains at two loads."
    )


def _first(found: Paper, config: PaperConfig) -> str:
    if "ltr" not in found.first or "boost" not in found.first:
        return ""
    prefill, boost = found.first_prefill["ltr"], found.first_prefill["boost"]
    if prefill < 1.5 * boost:
        return ""
    return (
        f"Of ltr's time to the first {config.first:,} samples {prefill:.0%} goes into their "
        f"prompts, which its score of the answer alone does not see; boost counts them "
        f"({boost:.0%}) and gains {found.first['boost'].median:.1f}x instead of "
        f"{found.first['ltr'].median:.1f}x. In the paper decoding dominates."
    )


def _swapping(found: Paper, config: PaperConfig) -> str:
    share = found.swapping.get("mlfq", 0.0)
    row = _of(found.poisson[config.rates[-1]], "mlfq")
    if share < 0.2 or row is None:
        return ""
    return (
        f"At {config.rates[-1]:g} requests/s mlfq spends {share:.0%} of its time moving keys and "
        f"values between host and device ({row.gain.median:.2f}x): a copy holds the step up here. "
        "FastServe moves them ahead of time, while others compute."
    )


def _sustained(found: Paper, config: PaperConfig) -> str:
    rows = [row for row in found.sustained if row.policy != "fcfs"]
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.at_mean.median)
    return (
        f"At {config.level:g} times the latency of half load the best here, {best.policy}, "
        f"sustains {best.at_mean.median:.2f}x fcfs's rate by mean per-token latency and "
        f"{best.at_p99.median:.2f}x by its p99. FastServe's 31.4x and 17.9x are over the vLLM of "
        "2023; fcfs here admits into running batches and prefills in chunks, as servers do now, "
        "and beyond capacity no order makes tokens faster."
    )
