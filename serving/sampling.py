"""Sampling parameters from fields that a caller set, whichever edge they came in by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from engine.sampling import SamplingParams
from serving.errors import RequestError, invalid, named_field

FIELDS = tuple(field.name for field in fields(SamplingParams))


def make_sampling(values: Mapping[str, Any], prefix: str) -> SamplingParams:
    """``SamplingParams`` from set fields. Raises INVALID naming ``prefix + field``."""
    try:
        return SamplingParams(**values)
    except ValueError as error:
        refused = refusal(error, prefix)
        if refused is None:
            raise
        raise refused from None


def refusal(error: ValueError, prefix: str = "") -> RequestError | None:
    """INVALID naming ``prefix + field`` if ``error`` is about a sampling parameter."""
    field = named_field(error, FIELDS)
    if not field:
        return None
    return invalid(prefix + field, str(error).partition(field)[2].lstrip(": "))
