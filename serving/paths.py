"""Where shortfirst keeps its state. Every other module takes paths as arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

#: Environment variable that moves everything shortfirst writes.
HOME_VARIABLE = "SHORTFIRST_HOME"
#: Environment variable with the MLflow tracking URI, in place of a file in the home folder.
TRACKING_VARIABLE = "SHORTFIRST_TRACKING_URI"


@dataclass(frozen=True, slots=True)
class Home:
    """One folder that holds all state; nothing is created until somebody writes to it.

    ``tracking_uri`` is where runs and rankers are when they are not in that folder.
    """

    root: Path
    tracking_uri: str = ""

    @classmethod
    def resolve(cls, environ: Mapping[str, str] | None = None) -> Home:
        """``$SHORTFIRST_HOME`` or the system's folder for application data, and
        ``$SHORTFIRST_TRACKING_URI``."""
        environ = os.environ if environ is None else environ
        tracking_uri = environ.get(TRACKING_VARIABLE, "")
        if value := environ.get(HOME_VARIABLE, ""):
            return cls(Path(value).expanduser().absolute(), tracking_uri)
        return cls(platformdirs.user_data_path("shortfirst"), tracking_uri)

    @property
    def cache(self) -> Path:
        """Converted models and token counts: can be deleted, costs time to make again."""
        return self.root / "cache"

    @property
    def mlflow_uri(self) -> str:
        """Tracking URI of runs and registered rankers: the one given, or a SQLite file."""
        return self.tracking_uri or sqlite_uri(self.root / "mlflow.db")

    @property
    def artifacts(self) -> Path:
        """Artifacts of MLflow runs."""
        return self.root / "artifacts"

    @property
    def outcomes(self) -> Path:
        """Realised lengths: a SQLite file without prompt text."""
        return self.root / "outcomes.db"

    @property
    def events(self) -> Path:
        """State changes of the drift monitor, one JSON object a line."""
        return self.root / "drift-events.jsonl"

    @property
    def history(self) -> Path:
        """Who did what, when: changes of state, promotions, actions. A SQLite file."""
        return self.root / "drift-history.db"

    @property
    def webhooks(self) -> Path:
        """Who is told of drift, when it is there: TOML."""
        return self.root / "webhooks.toml"

    @property
    def reports(self) -> Path:
        """HTML reports."""
        return self.root / "reports"


def prompts_beside(outcomes: Path) -> Path:
    """Where prompts are retained, when they are: beside the outcomes that they belong to."""
    return outcomes.with_name("prompts.db")


def sqlite_uri(path: Path) -> str:
    """SQLAlchemy URI of a SQLite file.

    SQLAlchemy hands the text behind ``sqlite:///`` to SQLite, so spaces and accents stay as they
    are. ``?`` would start a query, and whether ``%20`` is decoded depends on its version: such
    paths raise ``ValueError`` instead of ending in another file.
    """
    text = path.absolute().as_posix()
    if bad := re.search(r"\?|%[0-9A-Fa-f]{2}", text):
        raise ValueError(
            f"{HOME_VARIABLE}: the path {text!r} contains {bad[0]!r}, which the address of a "
            f"SQLite file cannot hold; choose another folder"
        )
    return f"sqlite:///{text}"
