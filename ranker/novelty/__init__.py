"""How unlike the training traffic a prompt is, without looking at lengths."""

from ranker.novelty.config import NoveltyConfig
from ranker.novelty.fit import fit
from ranker.novelty.measure import Novelty

__all__ = ["Novelty", "NoveltyConfig", "fit"]
