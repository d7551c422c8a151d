"""The promotion gate: only a ranker that orders better takes the place of the one that serves.

:func:`judge` and, on live traffic, :func:`judge_recent` compare, :func:`promote` moves the alias
and keeps the history, :func:`rollback` goes back.
"""

from training.gate.config import BurstConfig, GateConfig
from training.gate.history import History, Promotion, history
from training.gate.judge import judge
from training.gate.promote import GateError, OvertakenError, promote, promote_if_passed, rollback
from training.gate.recent import judge_recent
from training.gate.registered import CHALLENGER, CHAMPION, check_move
from training.gate.rows import SEEN_FILE, seen
from training.gate.verdict import COLUMNS, Check, Verdict

__all__ = [
    "CHALLENGER",
    "CHAMPION",
    "COLUMNS",
    "SEEN_FILE",
    "BurstConfig",
    "Check",
    "GateConfig",
    "GateError",
    "History",
    "OvertakenError",
    "Promotion",
    "Verdict",
    "check_move",
    "history",
    "judge",
    "judge_recent",
    "promote",
    "promote_if_passed",
    "rollback",
    "seen",
]
