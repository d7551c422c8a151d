"""Names for what KV blocks hold, so that requests which begin alike compute it once."""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Bytes of a hash. A collision would answer one request from the prompt of another, so they are
#: many enough that nobody meets one by chance; the key keeps anybody from making one.
_BYTES = 16


class HashChain:
    """Hashes of the full blocks of one sequence, the newest last; grows with its tokens.

    A hash covers its block and, through the one before it, all tokens ahead of it: equal hashes
    mean equal beginnings.
    """

    def __init__(self, block_size: int, key: bytes) -> None:
        #: One per full block. The list itself is shared with the scheduler's request.
        self.hashes: list[int] = []
        self._key = key
        self._size = block_size
        self._last = b""
        self._rest = array("q")  # tokens of the block that is not full yet

    def append(self, token: int) -> None:
        """A token became known."""
        self._rest.append(token)
        if len(self._rest) == self._size:
            self._close(self._rest.tobytes())
            del self._rest[:]

    def extend(self, tokens: Sequence[int]) -> None:
        """As many calls of :meth:`append`, faster."""
        self._rest.extend(tokens)
        whole = len(self._rest) // self._size * self._size
        step = self._size * self._rest.itemsize
        content = self._rest[:whole].tobytes()
        for start in range(0, len(content), step):
            self._close(content[start : start + step])
        del self._rest[:whole]

    def _close(self, block: bytes) -> None:
        digest = hashlib.blake2b(self._last, digest_size=_BYTES, key=self._key)
        digest.update(block)
        self._last = digest.digest()
        self.hashes.append(int.from_bytes(self._last, "big"))


@dataclass(frozen=True, slots=True)
class BlockHasher:
    """Starts chains. ``key`` is drawn anew for each process: hashes say nothing outside it, and
    who does not know it cannot look for tokens whose hashes meet."""

    block_size: int
    key: bytes = field(default_factory=lambda: secrets.token_bytes(_BYTES), repr=False)

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {self.block_size}")

    def chain(self, tokens: Sequence[int]) -> HashChain:
        """The chain of a sequence that begins with ``tokens``."""
        chain = HashChain(self.block_size, self.key)
        chain.extend(tokens)
        return chain
