"""``shortfirst rank``: ask a running rank service about prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rank(
    prompts: Annotated[
        list[str] | None,
        typer.Argument(help="Prompts. None, or a single -: one prompt a line from standard input."),
    ] = None,
    target: Annotated[str, typer.Option(help="Where the rank service is.")] = "127.0.0.1:50051",
    served_model: Annotated[
        str, typer.Option(help="The model that will answer. Default: the service's own.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option(help="A text file that is one prompt, however many lines it has.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Forecast how long the answers to prompts will be, shortest first."""
    from serving.cli.console import UserError, print_json, print_table
    from serving.rank_query import QueryFailed, query

    texts = _texts(prompts or [], file)
    try:
        answer = query(target, texts, served_model, timeout)
    except QueryFailed as error:
        raise UserError(str(error), status=1 if error.unavailable else 2) from None
    order = sorted(range(len(texts)), key=lambda i: answer.forecasts[i].score)
    rows = []
    for place, i in enumerate(order, start=1):
        forecast = answer.forecasts[i]
        rows.append(
            {
                "place": place,
                "input": i + 1,
                "score": forecast.score,
                "p10": forecast.quantile(0.1),
                "p50": forecast.quantile(0.5),
                "p90": forecast.quantile(0.9),
                "novelty": forecast.novelty,
                "trust": forecast.trust,
            }
        )
    if as_json:
        print_json(
            {
                "served_model": answer.served_model,
                "ranker": answer.ranker,
                "version": answer.version,
                "fallback": answer.fallback,
                "forecasts": rows,
            }
        )
        return
    by = f"{answer.ranker} version {answer.version}"
    if answer.fallback:
        by += f"; it does not know {answer.served_model}, so these are its pooled forecasts"
    trust = min((forecast.trust for forecast in answer.forecasts), default=1.0)
    if trust < 1.0:
        by += f"; the drift monitor leaves them a trust of {trust:g} in the order"
    print_table(
        ["place", "score", "p10", "p50", "p90", "novelty", "prompt"],
        [
            [r["place"], r["score"], round(r["p10"]), round(r["p50"]), round(r["p90"]),
             r["novelty"], _short(texts[int(r["input"]) - 1])]
            for r in rows
        ],
        title=f"Output tokens of {answer.served_model}, shortest first",
        caption=by,
    )  # fmt: skip


def _texts(prompts: list[str], file: Path | None) -> list[str]:
    import sys

    from serving.cli.console import UserError

    if file is not None:
        return [*prompts, _text(file.read_bytes(), str(file))]
    if prompts and prompts != ["-"]:
        return prompts
    if sys.stdin.isatty():
        raise UserError("no prompt: give prompts as arguments or one a line on standard input")
    lines = _text(sys.stdin.buffer.read(), "standard input").splitlines()
    if not (texts := [line for line in lines if line.strip()]):
        raise UserError("standard input holds no prompt")
    return texts


def _text(data: bytes, name: str) -> str:
    from serving.cli.console import UserError

    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 (byte {error.start})") from None


def _short(text: str, width: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
