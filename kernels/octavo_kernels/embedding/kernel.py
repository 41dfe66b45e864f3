import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def embed_kernel(
    tokens_ptr,
    rows_ptr,
    table_ptr,
    out_ptr,
    HAS_ROWS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    source = tl.load(rows_ptr + row) if HAS_ROWS else row
    token = tl.load(tokens_ptr + source).to(tl.int64)
    x = tl.load(table_ptr + token * HIDDEN + col, mask=col < tl.where(token >= 0, HIDDEN, 0), other=0.0)
    tl.store(out_ptr + row * HIDDEN + col, x, mask=col < HIDDEN)
