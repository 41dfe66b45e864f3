"""Builds what is missing of the two images."""

import sys
import time

from dev.images.choose import choose_builder
from dev.images.names import Device, Images, image_names


def build_images(device: Device = "cpu") -> Images:
    """Build both images, unless those of these sources exist, and return their references."""
    builder = choose_builder()
    images = image_names(device)
    for target, reference in (("operator", images.operator), ("engine", images.engine)):
        if builder.has(reference):
            continue
        started = time.monotonic()
        print(f"building {reference}", file=sys.stderr, flush=True)
        builder.build(target, reference, device)
        print(f"built {reference} in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return images
