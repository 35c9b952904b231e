"""The device that networks are fitted on: its selection, its memory for a bucket, and the copy back to the host.

Example:
    >>> device = select_device("auto")
    >>> bucket_memory_bytes(device)
    33554432
    >>> inputs, bias = to_numpy(nets.inputs, nets.bias)

A process uses the first device in CUDA_VISIBLE_DEVICES. Dask's GPU workers (`workers.scheduler` is dask-cuda) are one process
each, and each has another device first.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from fingerprint.core.errors import FingerprintError
from fingerprint.training.nn.batching import CPU_BUCKET_BYTES

# On a device: about 26,000 networks. By estimate, the memory traffic of their step takes 6 ms on an H100, and its kernel launches
# a fifteenth of that. So a larger bucket would gain nothing, and 32 bits would no longer index its numbers.
MAX_BUCKET_BYTES = 8 << 30
# Share of the free memory for a bucket: the arrays of a step and other programs need memory as well.
FREE_MEMORY_DIVISOR = 4


def select_device(setting: str) -> torch.device:
    """Return the device that networks are fitted on. Raise FingerprintError if a GPU is required and torch sees none."""
    seen = torch.cuda.is_available() if setting != "cpu" else False
    if setting == "cuda" and not seen:
        raise FingerprintError(
            "autoencoder.device is cuda, but torch sees no CUDA device: set it to auto or cpu"
        )
    return torch.device("cuda", torch.cuda.current_device()) if seen else torch.device("cpu")


def bucket_memory_bytes(device: torch.device) -> int:
    """Return the bytes that a bucket may take."""
    return (
        CPU_BUCKET_BYTES
        if device.type == "cpu"
        else min(free_memory_bytes(device) // FREE_MEMORY_DIVISOR, MAX_BUCKET_BYTES)
    )


def free_memory_bytes(device: torch.device) -> int:
    """Return the unused bytes of a CUDA device, including those that torch keeps in reserve."""
    unused = torch.cuda.mem_get_info(device)[0]
    if torch.cuda.get_allocator_backend() == "pluggable":  # it keeps no accounts
        return int(unused)
    return int(unused + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def to_numpy(*tensors: torch.Tensor) -> list[NDArray[Any]]:
    """Return tensors as NumPy arrays.

    Tensors on a device are copied through pinned memory, at the full speed of the bus.
    """
    landed = [_copy_to_pinned(each) for each in tensors]
    if any(each.is_cuda for each in tensors):
        torch.cuda.current_stream().synchronize()
    return [each.numpy() for each in landed]


def _copy_to_pinned(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_cuda:
        return tensor
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor, non_blocking=True)
