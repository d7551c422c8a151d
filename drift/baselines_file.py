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
from drift.meaning import POINTS, Meaning
from drift.shift import Baseline


def save_baselines(path: Path, baselines: Mapping[Key, Baselines]) -> None:
    """Write ``baselines`` as JSON, whole or not at all. Raises ``OSError``."""
    items = [
        {
            "key": asdict(key),
            "length": _plain(found.length),
            "inputs": {name: _plain(baseline) for name, baseline in found.inputs.items()},
            "embedding": [_plain(axis) for axis in found.meaning.axes] if found.meaning else None,
        }
        for key, found in baselines.items()
    ]
    write_whole(path, json.dumps(items))


def load_baselines(path: Path) -> dict[Key, Baselines]:
    """Read what :func:`save_baselines` wrote; none when there is no file.

    Raises ``ValueError`` when it holds anything else. A file from before embeddings were looked at
    knows none: they are not compared until another ranker version comes.
    """
    if not path.exists():
        return {}
    try:
        return {
            Key(**item["key"]): Baselines(
                _baseline(**item["length"]),
                {name: _baseline(**values) for name, values in item["inputs"].items()},
                _meaning(item.get("embedding")),
            )
            for item in json.loads(path.read_text(encoding="utf-8"))
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} does not hold drift baselines: delete it") from error


def _plain(baseline: Baseline) -> dict[str, Any]:
    curve = baseline.curve.thinned(POINTS)
    return {
        "at": curve.at.tolist(),
        "probability": curve.probability.tolist(),
        "known_to": curve.known_to if np.isfinite(curve.known_to) else None,
        "edges": baseline.edges.tolist(),
        "shares": baseline.shares.tolist(),
        "count": baseline.count,
    }


def _meaning(axes: list[dict[str, Any]] | None) -> Meaning | None:
    return Meaning(tuple(_baseline(**values) for values in axes)) if axes else None


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
