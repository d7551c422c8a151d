"""Losses that teach order and distributions of lengths, one a file. Torch.

Ranking losses take ``scores [lists, size]``, higher = longer, and :class:`ranker.losses.lengths.
ListLengths`, and give one number. Padding, whatever stands there, changes neither loss nor
gradient; a censored length is a lower bound and decides only what the bound decides.
"""
