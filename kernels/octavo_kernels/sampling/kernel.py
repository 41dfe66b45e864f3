import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

LOWEST = tl.constexpr(-3.0e38)
NO_TOKEN = tl.constexpr(2147483647)
NOT_FINITE = tl.constexpr(-1)
WAYS = tl.constexpr(4)


@triton.jit
def value_of_key(key):
    """The float whose position in the order of all floats is the signed integer ``key``."""
    return tl.where(key >= 0, key, key ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)


@triton.jit
def measure(logits_ptr, peak, inv_temperature, floor, cut, vocab_size, BLOCK: tl.constexpr):
    """Number of logits >= each cut [WAYS], and their softmax mass relative to the peak, among those >= floor."""
    count = tl.zeros([WAYS], tl.int32)
    mass = tl.zeros([WAYS], tl.float32)
    for first in range(0, vocab_size, BLOCK):
        token = first + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + token, mask=token < vocab_size, other=float("-inf")).to(tl.float32)
        keep = (x[None, :] >= cut[:, None]) & (x >= floor)[None, :]
        weight = tl.exp((x - peak) * inv_temperature)
        count += tl.sum(keep.to(tl.int32), 1)
        mass += tl.sum(tl.where(keep, weight[None, :], 0.0), 1)
    return count, mass


@triton.jit
def highest_cut(
    logits_ptr,
    peak,
    inv_temperature,
    floor,
    goal,
    vocab_size,
    BY_MASS: tl.constexpr,
    FINEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The highest logit with ``goal`` tokens (or mass) at or above it: a search in float order, WAYS at a time."""
    low = tl.full([], -2147483648, tl.int64)
    step = tl.full([], 4294967296 // WAYS, tl.int64)
    way = tl.arange(0, WAYS).to(tl.int64)
    while step >= FINEST:
        cut = value_of_key((low + way * step).to(tl.int32))
        count, mass = measure(logits_ptr, peak, inv_temperature, floor, cut, vocab_size, BLOCK)
        reached = mass >= goal if BY_MASS else count >= goal
        # The first way always reaches the goal; NaN cuts beyond the infinities count nothing.
        low += tl.max(tl.where(reached, way, 0), 0) * step
        step = step // WAYS
    return value_of_key(low.to(tl.int32))


@triton.jit
def thresholds_kernel(
    logits_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    thresholds_ptr,
    vocab_size,
    FINEST: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    """The lowest logit a row may draw; minus infinity where nothing is cut off. One row a program."""
    row = tl.program_id(0)
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row_ptr = logits_ptr + row.to(tl.int64) * vocab_size
    temperature = tl.load(temperature_ptr + row)
    top_k = tl.load(top_k_ptr + row)
    top_p = tl.load(top_p_ptr + row)
    min_p = tl.load(min_p_ptr + row)
    cuts_k = (top_k > 0) & (top_k < vocab_size)
    threshold = float("-inf")
    if (temperature > 0) & (cuts_k | (top_p < 1.0) | (min_p > 0.0)):
        best = tl.zeros([BLOCK], tl.float32) + LOWEST
        for first in range(0, vocab_size, BLOCK):
            token = first + tl.arange(0, BLOCK)
            x = tl.load(row_ptr + token, mask=token < vocab_size, other=float("-inf")).to(tl.float32)
            best = tl.maximum(best, x)
        peak = tl.max(best, 0)
        inv_temperature = 1.0 / temperature
        if cuts_k:
            threshold = highest_cut(row_ptr, peak, inv_temperature, LOWEST, top_k, vocab_size, False, FINEST, BLOCK)
        if top_p < 1.0:
            floor = tl.maximum(threshold, LOWEST)
            _, mass = measure(
                row_ptr, peak, inv_temperature, floor, tl.zeros([WAYS], tl.float32) + floor, vocab_size, BLOCK
            )
            goal = top_p * tl.max(mass, 0)
            threshold = tl.maximum(
                threshold, highest_cut(row_ptr, peak, inv_temperature, floor, goal, vocab_size, True, FINEST, BLOCK)
            )
        if min_p > 0.0:
            threshold = tl.maximum(threshold, peak + tl.log(min_p) * temperature)
    tl.store(thresholds_ptr + row, threshold)


@triton.jit
def best_of_slice_kernel(
    logits_ptr,
    thresholds_ptr,
    temperature_ptr,
    seeds_ptr,
    positions_ptr,
    values_ptr,
    indices_ptr,
    vocab_size,
    NUM_SLICES: tl.constexpr,
    BLOCK: tl.constexpr,
    SAMPLE: tl.constexpr,
    PDL: tl.constexpr,
):
    """Best value and its lowest index in one slice of one row's (perturbed) logits: grid (rows, NUM_SLICES)."""
    row = tl.program_id(0)
    part = tl.program_id(1)
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    slice_size = tl.cdiv(vocab_size, NUM_SLICES)
    end = tl.minimum((part + 1) * slice_size, vocab_size)
    best = tl.zeros([BLOCK], tl.float32) + LOWEST
    best_token = tl.zeros([BLOCK], tl.int32) + NO_TOKEN
    is_broken = tl.zeros([BLOCK], tl.int32)
    if SAMPLE:
        threshold = tl.load(thresholds_ptr + row)
        temperature = tl.load(temperature_ptr + row)
        position = tl.load(positions_ptr + row)
        # One Philox stream a (seed, position): tokens are its offsets.
        seed = tl.load(seeds_ptr + row).to(tl.uint64) << 32 | position.to(tl.uint64) & 0xFFFFFFFF
    for first in range(part * slice_size, end, BLOCK):
        token = first + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row.to(tl.int64) * vocab_size + token, mask=token < end, other=0.0).to(tl.float32)
        is_broken = tl.where(tl.abs(x) < float("inf"), is_broken, 1)
        x = tl.where(token < end, x, LOWEST)
        if SAMPLE:
            uniform = tl.maximum(tl.rand(seed, token), 1e-10)
            perturbed = tl.where(temperature > 0, x - temperature * tl.log(-tl.log(uniform)), x)
            x = tl.where((x >= threshold) & (token < end), perturbed, LOWEST)
        is_better = x > best
        best = tl.where(is_better, x, best)
        best_token = tl.where(is_better, token, best_token)
    value = tl.max(best, 0)
    best_of_all = tl.min(tl.where(best == value, best_token, NO_TOKEN), 0)
    tl.store(values_ptr + row * NUM_SLICES + part, value)
    tl.store(indices_ptr + row * NUM_SLICES + part, tl.where(tl.max(is_broken, 0) > 0, NOT_FINITE, best_of_all))


@triton.jit
def best_of_row_kernel(
    values_ptr,
    indices_ptr,
    rows_ptr,
    out_ptr,
    HAS_ROWS: tl.constexpr,
    NUM_SLICES: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0)
    part = tl.arange(0, BLOCK)
    mask = part < NUM_SLICES
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    value = tl.load(values_ptr + row * NUM_SLICES + part, mask=mask, other=LOWEST)
    token = tl.load(indices_ptr + row * NUM_SLICES + part, mask=mask, other=NO_TOKEN)
    best = tl.max(value, 0)
    chosen = tl.min(tl.where(value == best, token, NO_TOKEN), 0)
    target = tl.load(rows_ptr + row) if HAS_ROWS else row
    tl.store(out_ptr + target, tl.where(tl.min(token, 0) == NOT_FINITE, NOT_FINITE, chosen))
