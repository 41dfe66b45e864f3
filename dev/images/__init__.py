"""Builds the operator's and the engine's image with what the machine has: docker, podman or buildah."""
