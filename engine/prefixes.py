"""Names for the blocks of prompts that begin alike, where a trace says that they do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

#: Tokens of a block in the Mooncake traces, and of the beginning that ``prefix_hash`` covers.
TRACE_BLOCK = 512
HASHED = 2 * TRACE_BLOCK

#: Blocks one chain may have: names of different chains lie so far apart.
_STRIDE = 1 << 32


class Sharing(StrEnum):
    """What to make of two prompts with one ``prefix_hash``.

    In ``traces.parquet`` the hash covers the first two blocks of 512 tokens (it is the SHA-1 of
    their two block numbers) and no more; ``n_prefix_blocks`` is the prompt's length in such blocks.
    So ``BEGINNING`` is all that the file says: 1,024 tokens in common. It takes sessions, whose
    prompts grow from turn to turn, for strangers.

    The numbers behind the hashes count up as blocks appear, so the largest tells how many different
    ones there are: 63 % of all blocks in mooncake_conversation, 36 % in mooncake_synthetic. The
    rest, 37 % and 64 %, a cache that forgets nothing would find. Under ``WHOLE`` (whoever begins
    alike agrees up to the end of the shorter prompt, in whole blocks of 512) it finds 39 % and
    64 %; under ``BEGINNING`` 3 % and 3 %. ``WHOLE`` is the near one, a little too kind.
    """

    NONE = "none"
    BEGINNING = "beginning"
    WHOLE = "whole"


def chain(number: int, blocks: int) -> range:
    """Hashes of the first ``blocks`` blocks of chain ``number``; equal where chains are equal.

    A range is a sequence of numbers that takes no memory, however long the prompt.
    """
    return range(number * _STRIDE, number * _STRIDE + blocks)


def shared_chains(
    prefixes: Sequence[str], prompt_tokens: Sequence[int], block_size: int, sharing: Sharing
) -> list[Sequence[int]]:
    """``block_hashes`` of requests from their ``prefix_hash``; those without one share nothing."""
    if sharing is Sharing.NONE:
        return [()] * len(prefixes)
    numbers: dict[str, int] = {}
    found: list[Sequence[int]] = []
    for prefix, tokens in zip(prefixes, prompt_tokens, strict=True):
        if not prefix:
            found.append(())
            continue
        number = numbers.setdefault(prefix, len(numbers))
        common = int(tokens) // TRACE_BLOCK * TRACE_BLOCK
        if sharing is Sharing.BEGINNING:
            common = min(common, HASHED)
        found.append(chain(number, common // block_size))
    return found
