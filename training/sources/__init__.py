"""Examples to train and judge a ranker on, and where they come from: one source a file."""

from training.sources.example import Data, Example, Lengths
from training.sources.leaks import without_leaks
from training.sources.progress import Progress, silent
from training.sources.table import read_table

__all__ = ["Data", "Example", "Lengths", "Progress", "read_table", "silent", "without_leaks"]
