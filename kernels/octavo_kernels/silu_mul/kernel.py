import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def silu_mul_kernel(gate_up_ptr, out_ptr, size, BLOCK: tl.constexpr, PDL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * BLOCK
    pair = 2 * first + tl.arange(0, 2 * BLOCK)
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(gate_up_ptr + row * 2 * size + pair, mask=pair < 2 * size, other=0.0).to(tl.float32)
    gate, up = tl.split(tl.reshape(x, [BLOCK, 2]))
    col = first + tl.arange(0, BLOCK)
    y = gate / (1 + tl.exp(-gate)) * up
    tl.store(out_ptr + row * size + col, y.to(out_ptr.dtype.element_ty), mask=col < size)
