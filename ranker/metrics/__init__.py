"""How good an order is, and how honest the quantiles are, on rows the ranker never saw."""

from ranker.metrics.ceiling import Ceiling, Share, ceiling, share_of_ceiling
from ranker.metrics.coverage import coverage
from ranker.metrics.order import Order, order
from ranker.metrics.paired import Difference, paired
from ranker.metrics.pairs import Pairs, decided, order_of
from ranker.metrics.thirds import short_long, thirds

__all__ = [
    "Ceiling",
    "Difference",
    "Order",
    "Pairs",
    "Share",
    "ceiling",
    "coverage",
    "decided",
    "order",
    "order_of",
    "paired",
    "share_of_ceiling",
    "short_long",
    "thirds",
]
