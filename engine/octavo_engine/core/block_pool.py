"""KV blocks of one preallocated slab: who owns which, in O(1)."""

from collections import OrderedDict
from collections.abc import Callable, Iterable


class BlockPool:
    """Reference counts and free lists over block ids 0 to `num_blocks - 1`.

    A block is used (it has owners), cached (no owner, but its content can be found again) or free. Allocation takes
    free blocks first, most recently freed first, then cached ones, least recently used first. `on_evict` is told a
    cached block's id before the block is given away.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.on_evict: Callable[[int], None] = lambda _: None
        self._num_owners = [0] * num_blocks
        self._is_kept = [False] * num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def num_available(self) -> int:
        """Blocks that `allocate` can give."""
        return len(self._free) + len(self._cached)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_available

    def num_owners(self, block_id: int) -> int:
        return self._num_owners[block_id]

    def allocate(self, count: int) -> list[int]:
        """`count` blocks with one owner each. The caller has checked `num_available`; ValueError if it is short."""
        if count > self.num_available:
            raise ValueError(f"{count} blocks asked for, {self.num_available} available")
        return [self._take() for _ in range(count)]

    def share(self, block_ids: Iterable[int]) -> None:
        """Add an owner to blocks whose content is known: used ones, or cached ones, which thereby become used."""
        for block_id in block_ids:
            if self._num_owners[block_id] == 0:
                del self._cached[block_id]
            self._num_owners[block_id] += 1

    def free(self, block_ids: list[int]) -> None:
        """Take one owner from each. Later blocks of a sequence count as less recently used than earlier ones."""
        for block_id in reversed(block_ids):
            if self._num_owners[block_id] == 0:
                raise ValueError(f"block {block_id} is freed but has no owner")
            self._num_owners[block_id] -= 1
            if self._num_owners[block_id] == 0:
                self._retire(block_id)

    def fork(self, block_id: int) -> int:
        """Copy on write: a block that its owner may write to. The same one when it has no other owner; else a new one,
        into which the caller copies the content."""
        if self._num_owners[block_id] == 1:
            return block_id
        (copy,) = self.allocate(1)
        self._num_owners[block_id] -= 1
        return copy

    def keep(self, block_id: int) -> None:
        """Keep a used block's content findable after its last owner frees it."""
        self._is_kept[block_id] = True

    def discard(self, block_id: int) -> None:
        """Undo `keep`: the content is not to be found again."""
        self._is_kept[block_id] = False
        if block_id in self._cached:
            del self._cached[block_id]
            self._free.append(block_id)

    def is_balanced(self) -> bool:
        """Whether every block is in exactly one place: used, cached or free. O(blocks)."""
        unowned = {block_id for block_id, count in enumerate(self._num_owners) if count == 0}
        return len(unowned) == self.num_available and unowned == {*self._free, *self._cached}

    def is_unowned(self) -> bool:
        """Whether no block has an owner. O(blocks), but fast enough to ask whenever the engine falls idle."""
        return self.num_used == 0 and not any(self._num_owners)

    def _take(self) -> int:
        if self._free:
            block_id = self._free.pop()
        else:
            block_id, _ = self._cached.popitem(last=False)
            self._is_kept[block_id] = False
            self.on_evict(block_id)
        self._num_owners[block_id] = 1
        return block_id

    def _retire(self, block_id: int) -> None:
        if self._is_kept[block_id]:
            self._cached[block_id] = None
        else:
            self._free.append(block_id)
