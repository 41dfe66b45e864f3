"""`python -m dev.images [cpu|cuda]`: build both images and print their references."""

import argparse
import sys
from typing import get_args

from dev.images.build import build_images
from dev.images.builder import ImageError
from dev.images.names import Device

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m dev.images", description="Build both images; print their names.")
    parser.add_argument("device", nargs="?", choices=get_args(Device), default="cpu")
    try:
        images = build_images(parser.parse_args().device)
    except ImageError as error:
        sys.exit(f"error: {error}")
    print(images.operator, images.engine, sep="\n")
