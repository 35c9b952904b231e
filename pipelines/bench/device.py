"""What a device could do at most, as its driver describes it, and what was held of its memory: the measure of its figures."""

from __future__ import annotations

from typing import NamedTuple

# float32 units of a multiprocessor by compute capability (CUDA C++ programming guide, "arithmetic instructions"): 64 on
# Volta, Turing and A100, else 128
FP32_UNITS_PER_SM = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}


class PeakThroughput(NamedTuple):
    """`bandwidth` bytes a second of its memory, `arithmetic` float32 operations a second, a multiplication and its addition
    being two."""

    bandwidth: float
    arithmetic: float


def peak_throughput(device: str) -> PeakThroughput | None:
    """None on a CPU, and where the driver does not say."""
    if device != "cuda":
        return None
    import torch

    about = torch.cuda.get_device_properties(0)
    names = ("memory_clock_rate", "memory_bus_width", "clock_rate", "multi_processor_count")
    memory_khz, bits, khz, count = (getattr(about, name, None) for name in names)
    if not (memory_khz and bits and khz and count):
        return None
    units = FP32_UNITS_PER_SM.get((about.major, about.minor), 128)
    return PeakThroughput(
        2 * memory_khz * 1000 * bits / 8, 2 * khz * 1000 * units * count
    )  # both edges of the memory's clock


def reset_peak_memory(device: str) -> None:
    """From here on the most that is held is counted anew."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak_memory_mib(device: str) -> int | None:
    """The most that torch held of the device since, in MiB."""
    if device != "cuda":
        return None
    import torch

    return torch.cuda.max_memory_reserved() >> 20
