import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from octavo_kernels.paged_tiles import LOG2_E, attend_cached, fold, load_tile, merge, tile_offset
from octavo_kernels.rotary.kernel import load_pairs, load_rotation, norm_pairs


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def advance_plan_kernel(
    lengths_ptr,
    shared_lens_ptr,
    starts_ptr,
    chunks_ptr,
    offsets_ptr,
    item_rows_ptr,
    num_rows,
    num_splits,
    window,
    MIN_CHUNK: tl.constexpr,
    MAX_ITEMS: tl.constexpr,
    BLOCK: tl.constexpr,
    GRANULE: tl.constexpr,
    ADVANCE: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.arange(0, BLOCK)
    mask = row < num_rows
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    length = tl.load(lengths_ptr + row, mask=mask, other=-1)
    is_live = length >= 0
    if ADVANCE:
        length += tl.where(is_live, 1, 0)
        tl.store(lengths_ptr + row, length, mask=mask)
    start = tl.load(shared_lens_ptr + row, mask=mask, other=0)
    if window > 0:
        start = tl.maximum(start, length + 1 - window)
    tl.store(starts_ptr + row, start, mask=mask)
    own = tl.where(is_live, length - start, 0)
    chunk = tl.cdiv(tl.sum(own, 0), num_splits)
    chunk = tl.maximum(tl.cdiv(chunk, GRANULE) * GRANULE, MIN_CHUNK)
    items = tl.where(is_live, tl.maximum(tl.cdiv(own, chunk), 1), 0)
    # A row's items are of one size, so that none of them is done early.
    own_chunk = tl.cdiv(tl.cdiv(own, tl.maximum(items, 1)), GRANULE) * GRANULE
    tl.store(chunks_ptr + row, own_chunk, mask=mask)
    offset = tl.cumsum(items, 0) - items
    num_items = tl.sum(items, 0)
    tl.store(offsets_ptr + row, offset, mask=mask)
    tl.store(offsets_ptr + num_rows, num_items)
    most = tl.max(items, 0)
    item = 0
    while item < most:
        tl.store(item_rows_ptr + offset + item, row, mask=(item < items) & (offset + item < MAX_ITEMS))
        item += 1


@triton.jit
def combine_items(
    partial_out_ptr,
    partial_stats_ptr,
    out_ptr,
    first_item,
    num_items,
    row,
    kv_head,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    GROUP: tl.constexpr,
    PADDED_GROUP: tl.constexpr,
    ITEMS: tl.constexpr,
):
    """Merge the softmax states that a row's items left for one KV head, ITEMS at a time, and store the row's output.

    Other programs wrote the states, so they are read past L1.
    """
    member = tl.arange(0, PADDED_GROUP)
    dim = tl.arange(0, HEAD_DIM)
    peak = tl.zeros([PADDED_GROUP], tl.float32) + float("-inf")
    total = tl.zeros([PADDED_GROUP], tl.float32)
    acc = tl.zeros([PADDED_GROUP, HEAD_DIM], tl.float32)
    for done in range(0, num_items, ITEMS):
        item = done + tl.arange(0, ITEMS)
        mask = (item < num_items)[:, None] & (member < GROUP)[None, :]
        line = (first_item + item)[:, None] * NUM_HEADS + kv_head * GROUP + member[None, :]
        item_peak = tl.load(partial_stats_ptr + line * 2, mask=mask, other=-1e30, cache_modifier=".cg")
        item_total = tl.load(partial_stats_ptr + line * 2 + 1, mask=mask, other=0.0, cache_modifier=".cg")
        item_acc = tl.load(
            partial_out_ptr + line[:, :, None] * HEAD_DIM + dim[None, None, :],
            mask=mask[:, :, None],
            other=0.0,
            cache_modifier=".cg",
        )
        new_peak = tl.maximum(peak, tl.max(item_peak, 0))
        decay = tl.exp2(peak - new_peak)
        item_weight = tl.exp2(item_peak - new_peak[None, :])
        total = total * decay + tl.sum(item_total * item_weight, 0)
        acc = acc * decay[:, None] + tl.sum(item_acc * item_weight[:, :, None], 0)
        peak = new_peak
    # Heads of padding have a total of zero.
    y = acc / tl.maximum(total, 1e-30)[:, None]
    line = row.to(tl.int64) * NUM_HEADS + kv_head * GROUP + member
    out_mask = (member < GROUP)[:, None]
    tl.store(out_ptr + line[:, None] * HEAD_DIM + dim[None, :], y.to(out_ptr.dtype.element_ty), mask=out_mask)


@triton.jit(do_not_specialize=["num_rows", "table_stride"])
def decode_attention_kernel(
    qkv_ptr,
    key_cache_ptr,
    value_cache_ptr,
    block_tables_ptr,
    lengths_ptr,
    starts_ptr,
    chunks_ptr,
    offsets_ptr,
    item_rows_ptr,
    cos_ptr,
    sin_ptr,
    query_norm_ptr,
    key_norm_ptr,
    out_ptr,
    partial_out_ptr,
    partial_stats_ptr,
    arrivals_ptr,
    prefix_out_ptr,
    prefix_stats_ptr,
    eps,
    scale,
    table_stride,
    num_rows,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    PADDED_GROUP: tl.constexpr,
    COMBINED_GROUP: tl.constexpr,
    TILE: tl.constexpr,
    STAGES: tl.constexpr,
    QK_NORM: tl.constexpr,
    NUM_PREFIX_SPLITS: tl.constexpr,
    PDL: tl.constexpr,
):
    """One KV head of one work item a program: grid (NUM_KV_HEADS, max_items)."""
    kv_head = tl.program_id(0)
    item = tl.program_id(1)
    if PDL:
        gdc_launch_dependents()
    # Plan, lengths, tables and cached tokens date from before this step: read them before waiting for the projection.
    if item >= tl.load(offsets_ptr + num_rows):
        return
    row = tl.load(item_rows_ptr + item)
    chunk = tl.load(chunks_ptr + row)
    first_item = tl.load(offsets_ptr + row)
    num_items = tl.load(offsets_ptr + row + 1) - first_item
    position = tl.load(lengths_ptr + row)
    start = tl.load(starts_ptr + row)
    is_last = item - first_item == num_items - 1
    first = start + (item - first_item) * chunk
    end = tl.minimum(first + chunk, position)
    table_ptr = block_tables_ptr + row.to(tl.int64) * table_stride
    dim = tl.arange(0, HEAD_DIM)
    member = tl.arange(0, PADDED_GROUP)
    head = kv_head * GROUP + member
    head_mask = member < GROUP
    cos, sin = load_rotation(cos_ptr, sin_ptr, position, dim, HEAD_DIM)
    token = first + tl.arange(0, TILE)
    if STAGES == 0:
        mask = token < end
        offset = tile_offset(table_ptr, token, mask, kv_head, NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, True)
        key = load_tile(key_cache_ptr, offset, mask, True)
        value = load_tile(value_cache_ptr, offset, mask, True)
    if PDL:
        gdc_wait()

    row_ptr = qkv_ptr + row.to(tl.int64) * ((NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM)
    partner = (dim + HEAD_DIM // 2) % HEAD_DIM
    key_ptr = row_ptr + (NUM_HEADS + kv_head) * HEAD_DIM
    query, query_swapped = load_pairs(row_ptr, head, head_mask, dim, HEAD_DIM)
    new_key = tl.load(key_ptr + dim).to(tl.float32)
    new_key_swapped = tl.load(key_ptr + partner).to(tl.float32)
    new_value = tl.load(row_ptr + (NUM_HEADS + NUM_KV_HEADS + kv_head) * HEAD_DIM + dim)
    if QK_NORM:
        query, query_swapped = norm_pairs(query, query_swapped, query_norm_ptr, dim, eps, HEAD_DIM)
        norm = tl.rsqrt(tl.sum(new_key * new_key, 0) / HEAD_DIM + eps)
        new_key = new_key * norm * tl.load(key_norm_ptr + dim).to(tl.float32)
        new_key_swapped = new_key_swapped * norm * tl.load(key_norm_ptr + partner).to(tl.float32)
    query = query * cos[None, :] + query_swapped * sin[None, :]
    query = (query * (scale * LOG2_E)).to(qkv_ptr.dtype.element_ty)
    new_key = (new_key * cos + new_key_swapped * sin).to(key_cache_ptr.dtype.element_ty)
    if is_last:
        block = tl.load(table_ptr + position // BLOCK_SIZE).to(tl.int64)
        line = (block * NUM_KV_HEADS + kv_head) * BLOCK_SIZE + position % BLOCK_SIZE
        tl.store(key_cache_ptr + line * HEAD_DIM + dim, new_key)
        tl.store(value_cache_ptr + line * HEAD_DIM + dim, new_value.to(value_cache_ptr.dtype.element_ty))

    # The row's last item starts from the new token itself (and the shared prefix), the others from nothing.
    own_score = tl.sum(query.to(tl.float32) * new_key.to(tl.float32)[None, :], 1)
    peak = tl.where(is_last, own_score, float("-inf"))
    total = tl.where(is_last, 1.0, 0.0) + tl.zeros([PADDED_GROUP], tl.float32)
    own_value = tl.where(is_last, new_value.to(tl.float32), 0.0)
    acc = tl.zeros([PADDED_GROUP, HEAD_DIM], tl.float32) + own_value[None, :]
    if NUM_PREFIX_SPLITS > 0 and is_last and start > 0:
        for split in tl.static_range(NUM_PREFIX_SPLITS):
            prefix_line = (split * num_rows + row) * NUM_HEADS + head
            prefix_peak = tl.load(prefix_stats_ptr + prefix_line * 2, mask=head_mask, other=0.0)
            prefix_total = tl.load(prefix_stats_ptr + prefix_line * 2 + 1, mask=head_mask, other=0.0)
            prefix_acc = tl.load(
                prefix_out_ptr + prefix_line[:, None] * HEAD_DIM + dim[None, :], mask=head_mask[:, None], other=0.0
            )
            peak, total, acc = merge(peak, total, acc, prefix_peak, prefix_total, prefix_acc)

    if STAGES == 0:
        for _ in range(first, end, TILE):
            # The next tile is on its way to registers while this one is used.
            next_mask = token + TILE < end
            offset = tile_offset(table_ptr, token + TILE, next_mask, kv_head, NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, True)
            next_key = load_tile(key_cache_ptr, offset, next_mask, True)
            next_value = load_tile(value_cache_ptr, offset, next_mask, True)
            score = tl.dot(query, key.to(query.dtype).T)
            peak, total, acc = fold(score, value.to(query.dtype), (token < end)[None, :], peak, total, acc, True)
            token += TILE
            key = next_key
            value = next_value
    else:
        for at in tl.range(first, end, TILE, num_stages=STAGES):
            token = at + tl.arange(0, TILE)
            mask = token < end
            peak, total, acc = attend_cached(
                query,
                key_cache_ptr,
                value_cache_ptr,
                table_ptr,
                token,
                mask,
                mask[None, :],
                kv_head,
                peak,
                total,
                acc,
                NUM_KV_HEADS,
                HEAD_DIM,
                BLOCK_SIZE,
                True,
            )

    out_line = row.to(tl.int64) * NUM_HEADS + head
    if num_items == 1:
        y = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + out_line[:, None] * HEAD_DIM + dim[None, :], y, mask=head_mask[:, None])
    else:
        line = item * NUM_HEADS + head
        tl.store(partial_out_ptr + line[:, None] * HEAD_DIM + dim[None, :], acc, mask=head_mask[:, None])
        tl.store(partial_stats_ptr + line * 2, peak, mask=head_mask)
        tl.store(partial_stats_ptr + line * 2 + 1, total, mask=head_mask)
        tl.debug_barrier()
        arrival_ptr = arrivals_ptr + row * NUM_KV_HEADS + kv_head
        if tl.atomic_add(arrival_ptr, 1, sem="acq_rel", scope="gpu") == num_items - 1:
            tl.store(arrival_ptr, 0)
            combine_items(
                partial_out_ptr,
                partial_stats_ptr,
                out_ptr,
                first_item,
                num_items,
                row,
                kv_head,
                NUM_HEADS,
                HEAD_DIM,
                GROUP,
                COMBINED_GROUP,
                16,
            )
