"""Which traffic the benchmark knows, and where each comes from.

What usual traffic is, is the first turns of ShareGPT. What it turns into is other traffic under
the same ranker; the shared data holds it, and without it parts of the bundled data stand in.
"""

from __future__ import annotations

from dataclasses import dataclass

PERMISSIVE, NON_COMMERCIAL = "prompts_permissive.parquet", "prompts_nc.parquet"


@dataclass(frozen=True, slots=True)
class Foreign:
    """Rows of ``file`` whose source begins with ``source`` and whose model with ``model``."""

    name: str
    what: str
    file: str
    source: str
    model: str = ""


FOREIGN = (
    Foreign("livecodebench", "code, o1-mini", PERMISSIVE, "livecodebench"),
    Foreign("arena-hard", "hard questions, GPT-3.5 and 4", PERMISSIVE, "arena_hard_v0.1"),
    Foreign("codealpaca", "code, text-davinci-003", NON_COMMERCIAL, "codealpaca"),
    Foreign("halueval", "instructions, GPT-3.5", PERMISSIVE, "halueval_general"),
    Foreign("gsm8k", "school mathematics, GPT-3", PERMISSIVE, "gsm8k"),
    Foreign("opinionqa", "opinion questions, GPT-3.5 and 4", PERMISSIVE, "llmdrift/opinionqa"),
    Foreign("primes", "is it a prime?, GPT-3.5 and 4", PERMISSIVE, "llmdrift/prime_full"),
    Foreign("ifeval", "instructions that can be checked, GPT-4", PERMISSIVE, "ifeval"),
    Foreign("alpacaeval", "chat, 34 other models", NON_COMMERCIAL, "alpaca_eval/"),
)


@dataclass(frozen=True, slots=True)
class Update:
    """The same prompts before and after a served model was replaced; the ranker learned before."""

    name: str
    before: str
    after: str
    file: str = PERMISSIVE
    source: str = "llmdrift/"


UPDATES = (
    Update("gpt-4, March to June", "gpt-4-0314", "gpt-4-0613"),
    Update("gpt-3.5, March to June", "gpt-3.5-turbo-0301", "gpt-3.5-turbo-0613"),
)

#: Slices of :mod:`training.traffic`, with what stands in where the shared data is not there.
SLICES = ("unlike", "code", "not-english", "deep-long")
