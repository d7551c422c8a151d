"""How good an order is, and how honest the quantiles are, on rows the ranker never saw."""

from ranker.metrics.ceiling import Ceiling, Share, ceiling, share_of_ceiling
from ranker.metrics.coverage import coverage
from ranker.metrics.order import Order, order
from ranker.metrics.paired import Difference, paired
from ranker.metrics.pairs import Pairs, decided
from ranker.metrics.partners import Partners
from ranker.metrics.thirds import short_long, thirds

__all__ = [
    "Ceiling",
    "Difference",
    "Order",
    "Pairs",
    "Partners",
    "Share",
    "ceiling",
    "coverage",
    "decided",
    "order",
    "paired",
    "share_of_ceiling",
    "short_long",
    "thirds",
]
