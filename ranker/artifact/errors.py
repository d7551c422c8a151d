"""What everything that reads an artifact raises."""

from __future__ import annotations


class ArtifactError(ValueError):
    """A folder that is no ranker, is damaged, unsafe, or was written by another version."""
