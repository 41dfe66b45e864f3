import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo_engine.core.block_pool import BlockPool


def cached(pool: BlockPool, count: int) -> list[int]:
    """Blocks that were filled, kept and freed again."""
    block_ids = pool.allocate(count)
    for block_id in block_ids:
        pool.keep(block_id)
    pool.free(block_ids)
    return block_ids


def test_every_block_is_given_out_once() -> None:
    pool = BlockPool(10)
    assert sorted(pool.allocate(4) + pool.allocate(6)) == list(range(10))
    assert (pool.num_available, pool.num_used) == (0, 10)


def test_more_than_there_is_cannot_be_allocated() -> None:
    pool = BlockPool(3)
    with pytest.raises(ValueError, match="4 blocks asked for, 3 available"):
        pool.allocate(4)
    assert pool.num_available == 3


def test_a_block_freed_last_is_reused_first() -> None:
    pool = BlockPool(10)
    first, second = pool.allocate(2)
    pool.free([first])
    pool.free([second])
    assert pool.allocate(2) == [second, first]


def test_free_blocks_are_used_before_cached_ones() -> None:
    pool = BlockPool(4)
    kept = cached(pool, 2)
    assert not set(pool.allocate(2)) & set(kept)
    assert pool.num_cached == 2


def test_cached_blocks_are_evicted_least_recently_used_first_and_tails_before_heads() -> None:
    pool = BlockPool(4)
    evicted: list[int] = []
    pool.on_evict = evicted.append
    old, new = cached(pool, 2), cached(pool, 2)
    pool.share([old[0]])
    pool.free([old[0]])
    pool.allocate(4)
    assert evicted == [old[1], new[1], new[0], old[0]]


def test_a_shared_block_is_freed_by_its_last_owner() -> None:
    pool = BlockPool(2)
    (block_id,) = pool.allocate(1)
    pool.share([block_id])
    pool.free([block_id])
    assert pool.num_used == 1
    pool.free([block_id])
    assert pool.num_used == 0


def test_sharing_a_cached_block_takes_it_out_of_reach_of_eviction() -> None:
    pool = BlockPool(2)
    (block_id,) = cached(pool, 1)
    pool.share([block_id])
    assert pool.allocate(1) != [block_id]
    assert pool.num_available == 0


def test_forking_a_shared_block_gives_a_new_one_and_a_block_of_ones_own_stays() -> None:
    pool = BlockPool(3)
    (block_id,) = pool.allocate(1)
    assert pool.fork(block_id) == block_id
    pool.share([block_id])
    copy = pool.fork(block_id)
    assert copy != block_id
    assert (pool.num_owners(block_id), pool.num_owners(copy)) == (1, 1)
    pool.free([block_id])
    pool.free([copy])
    assert pool.num_used == 0


def test_a_discarded_block_is_free_and_not_cached() -> None:
    pool = BlockPool(2)
    (idle,) = cached(pool, 1)
    (used,) = pool.allocate(1)
    pool.keep(used)
    pool.discard(idle)
    pool.discard(used)
    pool.free([used])
    assert (pool.num_cached, pool.num_available) == (0, 2)
    assert pool.is_balanced()


def test_freeing_twice_is_an_error() -> None:
    pool = BlockPool(2)
    (block_id,) = pool.allocate(1)
    pool.free([block_id])
    with pytest.raises(ValueError, match="has no owner"):
        pool.free([block_id])


@given(st.lists(st.tuples(st.sampled_from(["allocate", "share", "free", "fork", "keep"]), st.integers(0, 99))))
def test_any_sequence_of_calls_stays_balanced(calls: list[tuple[str, int]]) -> None:
    pool, owned = BlockPool(8), list[int]()
    for name, number in calls:
        if name == "allocate" and pool.num_available:
            owned += pool.allocate(number % pool.num_available + 1)
        elif owned and name == "share":
            pool.share([owned[number % len(owned)]])
            owned.append(owned[number % len(owned)])
        elif owned and name == "free":
            pool.free([owned.pop(number % len(owned))])
        elif owned and name == "fork" and pool.num_available:
            owned.append(pool.fork(owned.pop(number % len(owned))))
        elif owned and name == "keep":
            pool.keep(owned[number % len(owned)])
        assert pool.is_balanced()
        assert all(pool.num_owners(block_id) == owned.count(block_id) for block_id in range(8))
    pool.free(owned)
    assert pool.is_unowned()
