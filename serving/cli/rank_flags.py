"""Flags of the rank server's files and of its HTTP port, shared by the commands that have them."""

from __future__ import annotations

from typing import Annotated

import typer

AllowHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="A host name that metrics and dashboard may be asked by, such as the service name "
        "that Prometheus scrapes; may be given several times; * allows all. Addresses, localhost "
        "and the name in --host always are.",
    ),
]
KeepDays = Annotated[
    float,
    typer.Option(
        "--keep-outcomes-days",
        min=0.0,
        help="Delete realised lengths this many days after they finished; 0: never. The newest "
        "5,000 always stay.",
    ),
]
KeepRows = Annotated[
    int,
    typer.Option(
        "--keep-outcomes", min=0, help="Keep at most so many realised lengths; 0: no limit."
    ),
]
