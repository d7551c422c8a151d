"""What the papers report, to be printed beside what is measured here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """Gains over FCFS that a paper reports for one table or figure, by policy.

    ``what`` names model (Llama 3) and prompts; a number is FCFS's latency over the policy's.
    """

    source: str
    what: str
    gains: dict[str, float]


_LTR = "Fu et al. 2024 (NeurIPS)"


def _table_1(what: str, fcfs: float, mlfq: float, classes: float, ltr: float) -> Published:
    gains = {"mlfq": fcfs / mlfq, "class-10": fcfs / classes, "ltr": fcfs / ltr}
    return Published(f"{_LTR}, table 1", what, gains)


#: Mean per-token latency in a burst of 2,000: seconds per token of FCFS, MLFQ, ten-bucket
#: classification and LTR, as printed; table 3 adds an oracle that knows another seed's lengths.
BURST = (
    _table_1("8B ShareGPT", 1.15, 1.07, 1.13, 0.56),
    _table_1("8B LMSYS", 1.73, 0.80, 1.77, 0.38),
    _table_1("70B ShareGPT", 1.44, 1.37, 1.26, 0.78),
    _table_1("70B LMSYS", 2.17, 1.00, 2.23, 0.54),
    Published(f"{_LTR}, table 3", "70B ShareGPT", {"oracle": 1.44 / 0.46}),
    Published(f"{_LTR}, table 3", "70B LMSYS", {"oracle": 2.17 / 0.34}),
)
#: Mean per-token latency under Poisson arrivals: "up to", at 64 requests per second.
POISSON = (Published(_LTR, "at most, at 64/s", {"ltr": 6.9}),)
#: Seconds to the first 1,000 of 10,000 samples: 197.38 and 30.48.
FIRST = (Published(_LTR, "synthetic data", {"ltr": 197.38 / 30.48}),)
#: Rate sustained at the same average and the same tail latency as vLLM of 2023.
AT_MEAN = (Published("Wu et al. 2023 (FastServe)", "at most, at equal mean", {"mlfq": 31.4}),)
AT_TAIL = (Published("Wu et al. 2023 (FastServe)", "at most, at equal tail", {"mlfq": 17.9}),)
