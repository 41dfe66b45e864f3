"""Gives requests their KV blocks: what the prefix cache has, what must be allocated, what comes back."""

from octavo_engine.core.block_pool import BlockPool
from octavo_engine.core.prefix_cache import PrefixCache
from octavo_engine.core.request import Request


class KVManager:
    """Block pool and prefix cache in terms of requests. A running request owns blocks for all its known tokens."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_caching: bool) -> None:
        self.block_size = block_size
        self._enable_prefix_caching = enable_prefix_caching
        self._reset(num_blocks)

    @property
    def pool(self) -> BlockPool:
        return self._pool

    def match(self, request: Request) -> list[int]:
        """Blocks that hold the beginning of the request already."""
        return self._cache.match(request)

    def can_start(self, request: Request, hits: list[int], num_spare: int) -> bool:
        """Whether blocks for all its tokens are there beside the hits, and `num_spare` remain."""
        num_idle_hits = sum(self._pool.num_owners(block_id) == 0 for block_id in hits)
        num_needed = self._num_blocks_for(request) - len(hits) + num_idle_hits
        return num_needed + num_spare <= self._pool.num_available

    def start(self, request: Request, hits: list[int]) -> None:
        """Give the request all its blocks; the hits count as computed."""
        self._pool.share(hits)
        request.block_ids = hits + self._pool.allocate(self._num_blocks_for(request) - len(hits))
        request.num_registered_blocks = len(hits)
        request.num_computed_tokens = len(hits) * self.block_size

    def grow(self, request: Request) -> bool:
        """Make sure of a slot for the next token. False when that takes a block and none is available."""
        if request.num_computed_tokens < len(request.block_ids) * self.block_size:
            return True
        if not self._pool.num_available:
            return False
        request.block_ids += self._pool.allocate(1)
        return True

    def register(self, request: Request) -> None:
        """Let later requests find the blocks that this one has filled."""
        self._cache.register(request)

    def forget(self, request: Request) -> None:
        """Let no later request find any of its blocks."""
        self._cache.forget(request.block_ids)

    def forget_all(self) -> None:
        self._cache.clear()

    def release(self, request: Request) -> None:
        """Take all blocks back; the request starts over if it runs again."""
        self._pool.free(request.block_ids)
        request.block_ids = []
        request.num_registered_blocks = request.num_tabled_blocks = request.num_computed_tokens = 0

    def repair(self) -> bool:
        """To be called when no request runs: no block may have an owner. Else start over; says whether it had to."""
        if self._pool.is_unowned():
            return False
        self._reset(self._pool.num_blocks)
        return True

    def _reset(self, num_blocks: int) -> None:
        self._pool = BlockPool(num_blocks)
        self._cache = PrefixCache(self._pool, self.block_size, self._enable_prefix_caching)

    def _num_blocks_for(self, request: Request) -> int:
        return -(-len(request.token_ids) // self.block_size)
