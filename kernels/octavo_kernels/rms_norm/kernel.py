import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit(do_not_specialize=["num_tokens"])
def add_rms_norm_kernel(
    hidden_ptr,
    addends_ptr,
    weight_ptr,
    out_ptr,
    eps,
    num_tokens,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_ADDENDS: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    mask = col < HIDDEN
    if PDL:
        gdc_launch_dependents()
    weight = tl.load(weight_ptr + col, mask=mask, other=0.0).to(tl.float32)
    if PDL:
        gdc_wait()
    x = tl.load(hidden_ptr + row * HIDDEN + col, mask=mask, other=0.0).to(tl.float32)
    if NUM_ADDENDS > 0:
        for addend in tl.static_range(NUM_ADDENDS):
            x += tl.load(addends_ptr + (addend * num_tokens + row) * HIDDEN + col, mask=mask, other=0.0).to(tl.float32)
        rounded = x.to(hidden_ptr.dtype.element_ty)
        tl.store(hidden_ptr + row * HIDDEN + col, rounded, mask=mask)
        x = rounded.to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / HIDDEN + eps) * weight
    tl.store(out_ptr + row * HIDDEN + col, y.to(out_ptr.dtype.element_ty), mask=mask)
