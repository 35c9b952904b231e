"""The device that networks are fitted on: its choice, its room for a bucket, and the copy back from it.

Example:
    >>> device = select_device("auto")
    >>> bucket_memory_bytes(device)
    33554432
    >>> inputs, bias = to_numpy(nets.inputs, nets.bias)

A process sees the devices that CUDA_VISIBLE_DEVICES leaves it, and uses the first: Dask's workers on GPUs (`workers.scheduler` is
dask-cuda) are one process each, and each sees another one first.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from fingerprint.core.errors import FingerprintError
from fingerprint.training.nn.batching import CPU_BUCKET_BYTES

# On a device: some 26,000 nets. Their step takes 6 ms of an H100's memory and its launches a fifteenth of that
# (reckoned): a larger bucket would gain nothing, and 32 bits would no longer count its numbers.
MAX_BUCKET_BYTES = 8 << 30
# Of the memory that is free; what a step computes comes on top, and others live here, too.
FREE_MEMORY_DIVISOR = 4


def select_device(setting: str) -> torch.device:
    """Return the device that networks are fitted on. Raises FingerprintError where a GPU is asked for and torch sees none."""
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
    """Return the unused bytes of a CUDA device, with those that torch keeps in reserve."""
    unused = torch.cuda.mem_get_info(device)[0]
    if torch.cuda.get_allocator_backend() == "pluggable":  # it keeps no accounts
        return int(unused)
    return int(unused + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def to_numpy(*tensors: torch.Tensor) -> list[NDArray[Any]]:
    """Return tensors as NumPy arrays.

    From a device they go through pinned memory, which its copy engine fills at the full speed of the bus.
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
