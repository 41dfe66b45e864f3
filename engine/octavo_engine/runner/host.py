"""What this process may use of its machine: CPUs and memory, as cgroups (v1 and v2) limit them."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def num_usable_cpus(root: Path = ROOT) -> int:
    """Whole CPUs of the affinity mask and the cgroup's quota, at least one. More threads than that only stall."""
    quotas = [*_v2_cpu_quotas(root), *_v1_cpu_quotas(root)]
    return max(1, min(len(os.sched_getaffinity(0)), *(int(quota) for quota in quotas), 1 << 16))


def memory_limit_bytes(root: Path = ROOT) -> int:
    """The smallest of the machine's memory and the limits of the cgroup and its ancestors."""
    limits = [*_numbers(root, "", "memory.max"), *_numbers(root, "memory", "memory.limit_in_bytes")]
    return min([_machine_memory_bytes(root), *limits])


def release_freed_memory() -> None:
    """Gives memory that was freed back to the machine; glibc keeps what loading a model leaves, hundreds of MB."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _v2_cpu_quotas(root: Path) -> Iterator[float]:
    for text in _texts(root, "", "cpu.max"):
        quota, period = text.split()
        if quota != "max":
            yield int(quota) / int(period)


def _v1_cpu_quotas(root: Path) -> Iterator[float]:
    quotas, periods = _numbers(root, "cpu", "cpu.cfs_quota_us"), _numbers(root, "cpu", "cpu.cfs_period_us")
    yield from (quota / period for quota, period in zip(quotas, periods, strict=False) if quota > 0)


def _machine_memory_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{root}proc/meminfo has no MemTotal")


def _numbers(root: Path, controller: str, filename: str) -> list[int]:
    return [int(text) for text in _texts(root, controller, filename) if text != "max"]


def _texts(root: Path, controller: str, filename: str) -> Iterator[str]:
    """The file's content in this process's cgroup and each ancestor; `controller` is "" for v2."""
    mount = root / "sys/fs/cgroup" / controller
    for path in _cgroup_path(root, controller):
        file = mount / path / filename
        if file.is_file():
            yield file.read_text().strip()


def _cgroup_path(root: Path, controller: str) -> list[Path]:
    """Relative paths from the process's cgroup up to the mount, which in a container is all that can be seen."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            own = Path(path.lstrip("/"))
            return [own, *own.parents] if own.parts else [own]
    return []
