"""Makes ``training/data/novelty_prompts.parquet``: what the bundled model takes for prompts.

A chat model that is given its own template up to where the user's words begin writes a user's
words (Magpie, Xu et al. 2024, arXiv 2406.08464); the openings below say of which kind. The model
is SmolLM2-135M-Instruct (Apache-2.0), so the texts are no one's chat and no benchmark's file.

    shortfirst engine --dtype bfloat16 --http-port 8000 &
    python -m training.novelty.sample http://127.0.0.1:8000 training/data/novelty_prompts.parquet
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import httpx

from training.label import table

MODEL = "smollm2-135m-instruct"
#: The end of turn of the model's template; the engine stops at it.
END = "<|im_end|>"
EACH = 25  # drawn after each opening
MOST_TOKENS = 160
IN_FLIGHT = 96
#: Calmer than 1: at that temperature the small model writes what nobody would send.
TEMPERATURE, TOP_P = 0.7, 0.95
_LEAST_CHARS = 12
#: Small models write of violence and sex unasked; none of it is needed here.
_UNFIT = re.compile(r"\b(?:rape|sex|porn|suicid|murder|kill|nazi|hitler|condom)", re.IGNORECASE)

_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
#: How the user begins, by kind. The model goes on; of a system message that asks for a kind of
#: prompt it takes little notice.
OPENINGS: dict[str, tuple[str, ...]] = {
    "any": ("", "", ""),
    "fact": ("What is", "Who", "When", "Where", "Which", "How does", "Why", "Name"),
    "instruction": (
        *("Write", "Create", "Generate", "Explain", "Describe", "List", "Suggest", "Design"),
        *("Give an example of", "Compare", "Find", "Identify", "Provide", "Construct"),
    ),
    "input": (
        *("Rewrite the following sentence", "Summarize the following passage", "Classify"),
        *("Given the following", "Translate", "Edit the sentence", "Based on the text"),
    ),
    "maths": (
        *("A farmer has", "Anna bought", "If a train", "How many", "Calculate", "Solve"),
        *("There are", "A shop sells"),
    ),
    "logic": ("Determine whether", "Is it true that", "True or false:", "Count the number of"),
    "choice": ("Which of the following", "Question:", "How much do you agree", "Choose the"),
    "code": (
        *("Write a Python function", "Write a program", "You are given", "Given an array"),
        *("Implement", "Given a string", "Write a SQL query", "Write a regular expression"),
    ),
    "constraint": ("Write a letter", "Your response must", "Write a poem", "In at least"),
    "advice": ("How can I", "What are the", "I want to", "Imagine you are"),
}


def template(opening: str) -> str:
    """The model's own template up to and with the user's first words."""
    return f"<|im_start|>system\n{_SYSTEM}{END}\n<|im_start|>user\n{opening}"


async def draw(url: str) -> list[dict[str, Any]]:
    """Texts by kind, :data:`EACH` after each opening; those that did not end are left out.

    The seeds are 0, 1, 2 and so on. Raises ``httpx.HTTPError`` when the engine does not answer.
    """
    gate = asyncio.Semaphore(IN_FLIGHT)
    begun = [(kind, opening) for kind, each in OPENINGS.items() for opening in each]
    async with httpx.AsyncClient(timeout=None) as client:

        async def one(seed: int, kind: str, opening: str) -> dict[str, Any] | None:
            asked = {
                "model": MODEL,
                "prompt": template(opening),
                "max_tokens": MOST_TOKENS,
                "temperature": TEMPERATURE,
                "top_p": TOP_P,
                "seed": seed,
            }
            async with gate:
                response = await client.post(f"{url}/v1/completions", json=asked)
            response.raise_for_status()
            choice = response.json()["choices"][0]
            if choice["finish_reason"] != "stop":
                return None
            return {"kind": kind, "seed": seed, "prompt": (opening + choice["text"]).strip()}

        jobs = [one(seed, *each) for seed, each in enumerate(begun * EACH)]
        return [row for row in await asyncio.gather(*jobs) if row is not None]


def distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """First of each text, by kind and seed; texts that are too short to be a request, or that
    nobody should find in a file, are left out."""
    seen: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        if len(row["prompt"]) >= _LEAST_CHARS and not _UNFIT.search(row["prompt"]):
            seen.setdefault(" ".join(row["prompt"].lower().split()), row)
    return sorted(seen.values(), key=lambda row: list(OPENINGS).index(row["kind"]))


def main(url: str, out: Path) -> None:
    rows = distinct(asyncio.run(draw(url.rstrip("/"))))
    table.write(out, rows)
    print(f"{len(rows)} prompts in {out}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
