import triton
import triton.language as tl

from octavo_kernels.paged_tiles import LOG2_E, attend_cached


@triton.jit(do_not_specialize=["table_stride"])
def prefill_attention_kernel(
    qkv_ptr,
    key_cache_ptr,
    value_cache_ptr,
    block_tables_ptr,
    query_starts_ptr,
    context_lens_ptr,
    out_ptr,
    scale,
    window,
    table_stride,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HAS_WINDOW: tl.constexpr,
    QUERIES: tl.constexpr,
    TILE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One tile of queries of one head and sequence a program: grid (query tiles of the longest, heads, sequences).

    The tiles with most tokens to attend to start first, which evens out the causal triangle.
    """
    seq = tl.program_id(2)
    head = tl.program_id(1)
    first_row = tl.load(query_starts_ptr + seq)
    num_queries = tl.load(query_starts_ptr + seq + 1) - first_row
    first_query = (tl.num_programs(0) - 1 - tl.program_id(0)) * QUERIES
    if first_query >= num_queries:
        return
    context = tl.load(context_lens_ptr + seq)
    kv_head = head // (NUM_HEADS // NUM_KV_HEADS)
    query_index = first_query + tl.arange(0, QUERIES)
    mask = query_index < num_queries
    position = context + query_index
    row = (first_row + query_index).to(tl.int64)
    dim = tl.arange(0, HEAD_DIM)
    row_size: tl.constexpr = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    query = tl.load(qkv_ptr + row[:, None] * row_size + head * HEAD_DIM + dim[None, :], mask=mask[:, None], other=0.0)
    query = (query.to(tl.float32) * (scale * LOG2_E)).to(qkv_ptr.dtype.element_ty)
    table_ptr = block_tables_ptr + seq.to(tl.int64) * table_stride

    begin = 0
    if HAS_WINDOW:
        begin = tl.maximum(context + first_query + 1 - window, 0) // TILE * TILE
    end = tl.minimum(context + first_query + QUERIES, context + num_queries)
    # Tokens before `full` are visible to every query of the tile and need no mask.
    full = (context + first_query) // TILE * TILE
    if HAS_WINDOW:
        full = begin
    peak = tl.zeros([QUERIES], tl.float32) + float("-inf")
    total = tl.zeros([QUERIES], tl.float32)
    acc = tl.zeros([QUERIES, HEAD_DIM], tl.float32)
    for at in tl.range(begin, full, TILE, num_stages=STAGES):
        token = at + tl.arange(0, TILE)
        peak, total, acc = attend_cached(
            query,
            key_cache_ptr,
            value_cache_ptr,
            table_ptr,
            token,
            token < end,
            mask[:, None],
            kv_head,
            peak,
            total,
            acc,
            NUM_KV_HEADS,
            HEAD_DIM,
            BLOCK_SIZE,
            False,
        )
    for at in tl.range(full, end, TILE):
        token = at + tl.arange(0, TILE)
        age = position[:, None] - token[None, :]
        visible = age >= 0
        if HAS_WINDOW:
            visible = visible & (age < window)
        peak, total, acc = attend_cached(
            query,
            key_cache_ptr,
            value_cache_ptr,
            table_ptr,
            token,
            token < end,
            visible,
            kv_head,
            peak,
            total,
            acc,
            NUM_KV_HEADS,
            HEAD_DIM,
            BLOCK_SIZE,
            True,
        )
    total = tl.where(mask, total, 1.0)
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row[:, None] * (NUM_HEADS * HEAD_DIM) + head * HEAD_DIM + dim[None, :], out, mask=mask[:, None])
