from octavo_engine.core.block_pool import BlockPool
from octavo_engine.core.prefix_cache import PrefixCache
from octavo_engine.core.request import Request
from octavo_engine.messages import AddRequest
from octavo_engine.sampling_params import SamplingParams

BLOCK_SIZE = 8


def make(num_blocks: int = 16, is_enabled: bool = True) -> tuple[BlockPool, PrefixCache]:
    pool = BlockPool(num_blocks)
    return pool, PrefixCache(pool, BLOCK_SIZE, is_enabled)


def request(tokens: list[int]) -> Request:
    return Request(AddRequest("r", tokens, SamplingParams()), 0)


def computed(pool: BlockPool, cache: PrefixCache, tokens: list[int]) -> Request:
    """A request whose tokens are all computed and registered."""
    done = request(tokens)
    done.block_ids = pool.allocate(-(-len(tokens) // BLOCK_SIZE))
    done.num_computed_tokens = len(tokens)
    cache.register(done)
    return done


def test_the_longest_known_beginning_is_found() -> None:
    pool, cache = make()
    done = computed(pool, cache, list(range(30)))
    assert cache.match(request([*range(20), 99, 98])) == done.block_ids[:2]
    assert cache.match(request(list(range(40)))) == done.block_ids[:3]
    assert cache.match(request([5, *range(20)])) == []


def test_the_last_token_is_always_left_to_compute() -> None:
    pool, cache = make()
    done = computed(pool, cache, list(range(16)))
    assert cache.match(request(list(range(16)))) == done.block_ids[:1]
    assert cache.match(request(list(range(17)))) == done.block_ids


def test_equal_blocks_after_different_beginnings_are_different() -> None:
    pool, cache = make()
    computed(pool, cache, [1] * 8 + [7] * 8)
    assert cache.match(request([2] * 8 + [7] * 8 + [0])) == []
    assert cache.match(request([7] * 8 + [0])) == []


def test_only_full_computed_blocks_are_registered() -> None:
    pool, cache = make()
    partial = request(list(range(30)))
    partial.block_ids = pool.allocate(4)
    partial.num_computed_tokens = 15
    cache.register(partial)
    assert len(cache) == 1
    partial.num_computed_tokens = 30
    cache.register(partial)
    assert len(cache) == 3


def test_content_survives_its_owner_until_it_is_evicted() -> None:
    pool, cache = make(num_blocks=4)
    done = computed(pool, cache, list(range(16)))
    pool.free(done.block_ids)
    assert cache.match(request(list(range(20)))) == done.block_ids
    pool.allocate(3)
    assert cache.match(request(list(range(20)))) == done.block_ids[:1]
    pool.allocate(1)
    assert cache.match(request(list(range(20)))) == []
    assert len(cache) == 0


def test_the_first_of_two_equal_blocks_is_the_one_that_is_found() -> None:
    pool, cache = make()
    first = computed(pool, cache, list(range(16)))
    second = computed(pool, cache, list(range(16)))
    assert cache.match(request(list(range(20)))) == first.block_ids
    pool.free(second.block_ids)
    pool.free(first.block_ids)
    assert pool.num_cached == 2


def test_forgotten_blocks_are_not_found_and_not_kept() -> None:
    pool, cache = make()
    done = computed(pool, cache, list(range(16)))
    cache.forget(done.block_ids)
    pool.free(done.block_ids)
    assert cache.match(request(list(range(20)))) == []
    assert pool.num_cached == 0
    computed(pool, cache, list(range(16)))
    cache.clear()
    assert len(cache) == 0


def test_a_disabled_cache_finds_and_keeps_nothing() -> None:
    pool, cache = make(is_enabled=False)
    done = computed(pool, cache, list(range(16)))
    pool.free(done.block_ids)
    assert cache.match(request(list(range(20)))) == []
    assert pool.num_cached == 0
