"""Counted pods in words."""


def pods(number: int, adjective: str = "") -> str:
    """`1 pod`, `3 ready pods`."""
    noun = "pod" if number == 1 else "pods"
    return f"{number} {adjective} {noun}" if adjective else f"{number} {noun}"
