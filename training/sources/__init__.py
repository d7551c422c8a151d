"""Examples to train and judge a ranker on, and where they come from: one source a file."""

from training.sources.assemble import EVERY_MODEL
from training.sources.duplicates import deduplicated
from training.sources.example import Data, Example, Lengths, Origin, digest
from training.sources.leaks import apart, refuse_leaks, without_leaks
from training.sources.orderable import refuse_unorderable
from training.sources.progress import Progress, silent
from training.sources.table import read_table

__all__ = [
    "EVERY_MODEL",
    "Data",
    "Example",
    "Lengths",
    "Origin",
    "Progress",
    "apart",
    "deduplicated",
    "digest",
    "read_table",
    "refuse_leaks",
    "refuse_unorderable",
    "silent",
    "without_leaks",
]
