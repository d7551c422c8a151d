"""Challenger against champion on rows that neither was trained on."""

from __future__ import annotations

from collections.abc import Sequence

from ranker.artifact import ArtifactError
from ranker.types import Forecast
from training.forecasts import forecasts_of
from training.gate.checks import checks
from training.gate.config import GateConfig
from training.gate.registered import CHAMPION, Registered, check_move
from training.gate.rows import SEEN_FILE, unseen
from training.gate.verdict import Verdict
from training.sources import Data, Example


def judge(
    registry: Registered,
    name: str,
    version: str,
    data: Data | None,
    *,
    alias: str = CHAMPION,
    config: GateConfig | None = None,
) -> Verdict:
    """Whether ``version`` may take the place of the version that ``alias`` stands for.

    Both forecast the validation rows of ``data``, which is what ``version`` was trained with: the
    test rows stay untouched by any decision, so that what is reported of them stays true. The
    validation rows chose settings of the challenger, and calibrated it; the champion's, if it is
    of other data, not. Rows that the champion was trained on are left out. Raises ``ValueError``
    for an unknown version or a reserved alias.
    """
    check_move(registry, name, version, alias)
    config = config or GateConfig()
    champion = registry.resolve(name, alias)

    def found(**parts: object) -> Verdict:
        return Verdict(name, version, alias, champion, **parts)  # type: ignore[arg-type]

    if champion in (None, version):
        return found()
    if data is None:
        return found(obstacle="no held-out rows to compare on; give the data that it was trained "
                     "with")  # fmt: skip
    new, old = (registry.run_tags(name, v) for v in (version, champion))
    served = new.get("served_model", "")
    if served != old.get("served_model", ""):
        return found(
            obstacle=f"version {champion} forecasts {old.get('served_model')}, version {version} "
            f"forecasts {served}"
        )
    if data.digest("validation") != new.get("validation_digest"):
        return found(
            obstacle=f"{data.name} is not, or no longer, what version {version} was validated on"
        )
    held = data.split("validation")
    same = new["validation_digest"] == old.get("validation_digest")
    rows = _fair(registry, name, champion, held, same)
    if rows is None:
        return found(obstacle=untold(champion))
    left_out = len(held) - len(rows)
    if len(rows) < config.least_rows:
        return found(
            rows=len(rows),
            left_out=left_out,
            obstacle=f"{len(rows)} validation rows that version {champion} was not trained on are "
            f"too few to compare; at least {config.least_rows} are needed",
        )
    told = forecasts_of_both(registry, name, champion, version, rows)
    if told is None:
        return found(rows=len(rows), left_out=left_out)
    return found(rows=len(rows), left_out=left_out, checks=checks(*told, rows, config))


def forecasts_of_both(
    registry: Registered, name: str, champion: str, version: str, rows: Sequence[Example]
) -> tuple[list[Forecast], list[Forecast]] | None:
    """The champion's forecasts of ``rows`` and those of ``version``; ``None`` when the champion
    does not load: it could not serve either, and whatever loads is better."""
    after = forecasts_of(registry.load(f"models:/{name}/{version}"), rows)
    try:
        return forecasts_of(registry.load(f"models:/{name}/{champion}"), rows), after
    except ArtifactError:
        return None


def untold(version: str) -> str:
    """The obstacle of a version without :data:`SEEN_FILE`."""
    return f"version {version} does not say what it was trained on"


def _fair(
    registry: Registered, name: str, champion: str, held: list[Example], same: bool
) -> list[Example] | None:
    trained_on = registry.attached(name, champion, SEEN_FILE)
    if trained_on is None:
        return held if same else None
    return unseen(held, trained_on)
