"""What the decoder computes with, apart from attention: one interface, so that each device brings its own kernels."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Linear = Callable[[Tensor], Tensor]


class Ops(Protocol):
    """Activations are (num_tokens, features). Results may reuse the memory of the arguments marked so."""

    def linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Prepares (out, in) `weight` for its device once. The caller drops its own reference to it."""
        ...

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor: ...

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """(normalized, sum) of `x + residual`. Reuses `residual` for the sum."""
        ...

    def rotation(self, table: Tensor, positions: Tensor) -> Any:
        """What `rotate` needs, made once per pass from the table of `rotary_table` and int64 `positions`."""
        ...

    def rotate(self, x: Tensor, rotation: Any) -> None:
        """Applies rotary position embedding to (num_tokens, num_heads, head_dim) `x`, in place."""
        ...

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up, where `gate_up` is (num_tokens, 2 * features): gate first."""
        ...


class TorchOps:
    """Plain torch. On a CPU with oneDNN, bfloat16 and float32 weights are packed into its blocked layout."""

    def linear(self, weight: Tensor, bias: Tensor | None) -> Linear:
        if not _is_packable(weight):
            return lambda x: F.linear(x, weight, bias)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        pointwise = torch.ops.mkldnn._linear_pointwise.default
        return lambda x: pointwise(x, packed, bias, "none", [], "")

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, eps)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        residual += x
        return self.rms_norm(residual, weight, eps), residual

    def rotation(self, table: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = table[positions].unsqueeze(1).chunk(2, dim=-1)
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)

    def rotate(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> None:
        cos, signed_sin = rotation
        first, second = x.chunk(2, dim=-1)
        x.copy_(torch.addcmul(x * cos, torch.cat((second, first), dim=-1), signed_sin))

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)


def _is_packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return False
    has_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and bool(has_bfloat16))
