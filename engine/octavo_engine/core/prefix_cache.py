"""Finds KV blocks by what they hold: a hash chain over full blocks of tokens."""

import hashlib

from octavo_engine.core.block_pool import BlockPool
from octavo_engine.core.request import Request


class PrefixCache:
    """Maps the hash of a full block, chained with all blocks before it, to the block that holds its KV.

    Blake2b with 16 bytes: equal hashes mean equal prefixes for all purposes, also against a hostile client.
    """

    def __init__(self, pool: BlockPool, block_size: int, is_enabled: bool = True) -> None:
        self._pool = pool
        self._block_size = block_size
        self._is_enabled = is_enabled
        self._block_by_hash: dict[bytes, int] = {}
        self._hash_by_block: dict[int, bytes] = {}
        pool.on_evict = self._drop

    def __len__(self) -> int:
        return len(self._block_by_hash)

    def match(self, request: Request) -> list[int]:
        """Blocks that hold the longest known beginning of the request, in order, not yet owned by it.

        They never cover its last token: that one is computed anyway, because its logits are needed.
        """
        if not self._is_enabled:
            return []
        block_ids = []
        num_full = (len(request.token_ids) - 1) // self._block_size
        for block_hash in self._hashes(request, num_full)[:num_full]:
            block_id = self._block_by_hash.get(block_hash)
            if block_id is None:
                break
            block_ids.append(block_id)
        return block_ids

    def register(self, request: Request) -> None:
        """Make the request's blocks that are full, computed and known by their tokens findable."""
        num_full = min(request.num_computed_tokens, len(request.token_ids)) // self._block_size
        if not self._is_enabled or num_full <= request.num_registered_blocks:
            return
        hashes = self._hashes(request, num_full)
        for i in range(request.num_registered_blocks, num_full):
            self._insert(hashes[i], request.block_ids[i])
        request.num_registered_blocks = num_full

    def forget(self, block_ids: list[int]) -> None:
        """Make blocks unfindable, for example because their content is not finite."""
        for block_id in block_ids:
            if block_id in self._hash_by_block:
                self._drop(block_id)
                self._pool.discard(block_id)

    def clear(self) -> None:
        self.forget(list(self._hash_by_block))

    def _insert(self, block_hash: bytes, block_id: int) -> None:
        if block_hash not in self._block_by_hash:
            self._block_by_hash[block_hash] = block_id
            self._hash_by_block[block_id] = block_hash
            self._pool.keep(block_id)

    def _drop(self, block_id: int) -> None:
        del self._block_by_hash[self._hash_by_block.pop(block_id)]

    def _hashes(self, request: Request, count: int) -> list[bytes]:
        """At least the first `count` hashes of the chain; computed once per block of a request."""
        hashes, size = request.block_hashes, self._block_size
        for i in range(len(hashes), count):
            tokens = request.token_ids[i * size : (i + 1) * size].tobytes()
            hashes.append(hashlib.blake2b(tokens, key=hashes[-1] if hashes else b"", digest_size=16).digest())
        return hashes
