"""The autoscaler's memory as plain JSON values, so that a new leader can go on where the old one stopped."""

from typing import Any

import msgspec

from octavo_operator.autoscaler.types import AutoscalerState


def store_state(state: AutoscalerState) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(state)
    return plain


def load_state(plain: object) -> AutoscalerState:
    """Raises ValueError that names the field if `plain` is not what `store_state` returned."""
    try:
        return msgspec.convert(plain, AutoscalerState)
    except msgspec.ValidationError as error:
        raise ValueError(f"the stored state of the autoscaler cannot be read: {error}") from error
