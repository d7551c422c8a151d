"""Distributions of the reference on disk: a restart must not take what drifted for usual."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drift.features import Baselines
from drift.files import write_whole
from drift.kaplan_meier import Curve
from drift.key import Key
from drift.shift import Baseline

#: Points of a curve that are kept; distances are off by one part of it at most.
_POINTS = 256


def save_baselines(path: Path, baselines: Mapping[Key, Baselines]) -> None:
    """Write ``baselines`` as JSON, whole or not at all. Raises ``OSError``."""
    items = [
        {
            "key": asdict(key),
            "length": _plain(found.length),
            "inputs": {name: _plain(baseline) for name, baseline in found.inputs.items()},
        }
        for key, found in baselines.items()
    ]
    write_whole(path, json.dumps(items))


def load_baselines(path: Path) -> dict[Key, Baselines]:
    """Read what :func:`save_baselines` wrote; none when there is no file.

    Raises ``ValueError`` when it holds anything else.
    """
    if not path.exists():
        return {}
    try:
        return {
            Key(**item["key"]): Baselines(
                _baseline(**item["length"]),
                {name: _baseline(**values) for name, values in item["inputs"].items()},
            )
            for item in json.loads(path.read_text(encoding="utf-8"))
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} does not hold drift baselines: delete it") from error


def _plain(baseline: Baseline) -> dict[str, Any]:
    curve, last = baseline.curve, max(0, len(baseline.curve.at) - 1)
    places = np.unique(np.linspace(0, last, _POINTS).round().astype(np.int64))
    kept = places[: len(curve.at)]
    return {
        "at": curve.at[kept].tolist(),
        "probability": curve.probability[kept].tolist(),
        "known_to": curve.known_to if np.isfinite(curve.known_to) else None,
        "edges": baseline.edges.tolist(),
        "shares": baseline.shares.tolist(),
        "count": baseline.count,
    }


def _baseline(
    at: list[float],
    probability: list[float],
    known_to: float | None,
    edges: list[float],
    shares: list[float],
    count: int,
) -> Baseline:
    curve = Curve(
        np.array(at, dtype=np.float64),
        np.array(probability, dtype=np.float64),
        -np.inf if known_to is None else known_to,
    )
    edge, share = np.array(edges, dtype=np.float64), np.array(shares, dtype=np.float64)
    return Baseline(curve, edge, share, count)
