from __future__ import annotations

import torch

from octavo_kernels.paged_kv import gather_cache


def prefill_attention_reference(
    qkv: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    *,
    window: int = 0,
) -> torch.Tensor:
    _, num_kv_heads, _, head_dim = key_cache.shape
    query = qkv.view(qkv.shape[0], -1, head_dim)[:, : -2 * num_kv_heads].float()
    bounds = query_starts.tolist()
    for seq, context in enumerate(context_lens.tolist()):
        rows = slice(bounds[seq], bounds[seq + 1])
        length = context + rows.stop - rows.start
        keys = gather_cache(key_cache, block_tables[seq], length)
        values = gather_cache(value_cache, block_tables[seq], length)
        grouped = query[rows].view(length - context, num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
        scores = grouped @ keys[:, None].transpose(2, 3) * scale
        age = torch.arange(context, length, device=qkv.device)[:, None] - torch.arange(length, device=qkv.device)
        visible = (age >= 0) & (age < (window or length))
        attended = scores.masked_fill(~visible, -torch.inf).softmax(-1) @ values[:, None]
        out[rows] = attended.permute(2, 0, 1, 3).reshape(rows.stop - rows.start, -1).to(out.dtype)
    return out
