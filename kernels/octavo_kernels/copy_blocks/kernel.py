import triton
import triton.language as tl


@triton.jit
def copy_blocks_kernel(cache_ptr, sources_ptr, targets_ptr, size, BLOCK: tl.constexpr):
    pair = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    source = tl.load(sources_ptr + pair).to(tl.int64)
    target = tl.load(targets_ptr + pair).to(tl.int64)
    x = tl.load(cache_ptr + source * size + at, mask=at < size)
    tl.store(cache_ptr + target * size + at, x, mask=at < size)
