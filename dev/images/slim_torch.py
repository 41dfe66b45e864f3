"""Cut an installed CUDA build of torch down to what a machine without a GPU needs: 5.2 GB become 1.1 GB.

usage: slim_torch.py SITE_PACKAGES

torch is linked against the CUDA libraries, so the loader wants each of them to exist, although nothing calls them
without a GPU. Each large one is replaced by a stub with the symbols that torch asks for; a stub that is called traps.
Needs cc and readelf. Imports nothing but the standard library, because it runs in the image too.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

UNUSED = (
    *("triton", "cuda", "torch/include", "torch/share", "nvidia/*/include"),
    *("nvidia/**/*.a", "nvidia/**/*.bc", "nvidia/**/libcudnn_*", "nvidia/**/libnvperf_*", "nvidia/**/nvshmem_*"),
)
LARGE_BYTES = 10_000_000  # the smaller ones stay: torch calls libcudart while it is imported


def main(site_packages: Path) -> None:
    remove_unused(site_packages)
    wanted = wanted_symbols(site_packages)
    for library in list(site_packages.glob("nvidia/**/*.so*")):
        if re.search(r"\.so(\.\d+)*$", library.name) and library.stat().st_size > LARGE_BYTES:
            replace_by_stub(library, wanted)


def remove_unused(site_packages: Path) -> None:
    for pattern in UNUSED:
        for path in list(site_packages.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def wanted_symbols(site_packages: Path) -> set[str]:
    libraries = (site_packages / "torch/lib").glob("*.so*")
    return {name for library in libraries for name, _, is_defined in symbols(library) if not is_defined}


def symbols(library: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield each dynamic symbol's name, its version (or nothing), and whether the library defines it."""
    command = ["readelf", "--dyn-syms", "--wide", str(library)]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        columns = line.split()
        if len(columns) >= 8 and columns[0].rstrip(":").isdigit():
            name, _, version = columns[7].partition("@")
            yield name, version.lstrip("@"), columns[6] != "UND"


def replace_by_stub(library: Path, wanted: set[str]) -> None:
    names_by_version: dict[str, list[str]] = defaultdict(list)
    for name, version, is_defined in symbols(library):
        if is_defined and name in wanted:
            names_by_version[version].append(name)
    library.unlink()  # it may be a hard link into a package cache
    compile_stub(library, names_by_version)


def compile_stub(library: Path, names_by_version: dict[str, list[str]]) -> None:
    functions = [f"void {name}(void) {{ __builtin_trap(); }}" for names in names_by_version.values() for name in names]
    versions = [
        f"{version} {{ global: {'; '.join(names)}; }};" for version, names in names_by_version.items() if version
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "stub.map")
        source.write_text("\n".join(functions))
        script.write_text("\n".join(versions))
        options = ["-shared", "-fPIC", "-w", f"-Wl,-soname,{library.name}"]
        if versions:
            options.append(f"-Wl,--version-script={script}")
        subprocess.run(["cc", *options, "-o", library, source], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
