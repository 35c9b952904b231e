"""The same work again and again: on a CUDA device captured once as a graph, and replayed.

Example:
    >>> again = Captured(run.epoch) if replayed(device) else run.epoch
    >>> for _ in range(20):
    ...     again()

What is replayed are kernels at fixed addresses: no Python runs, nothing is allocated, nobody is asked. So `work` takes and
returns nothing, changes tensors that live as long as it in place, counts in tensors, and never asks a tensor for its value.
Launching the few hundred kernels of an epoch takes milliseconds, whatever they compute; replayed, they follow one another.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Work = Callable[[], None]


def supports_cuda_graphs(device: torch.device) -> bool:
    """Whether work can be captured there. Not where torch borrows its memory (RMM's): what a graph uses would be given away."""
    return device.type == "cuda" and torch.cuda.get_allocator_backend() != "pluggable"


class GraphedCallable:
    """Called for the first time it works (libraries set themselves up then, which cannot be captured); the second time it is
    captured; from then on it is replayed. The memory in between is its own, and goes with it."""

    def __init__(self, work: Work) -> None:
        self.work, self.warmed_up = work, False
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if not self.warmed_up:
            self.work()
            self.warmed_up = True
            return
        if self.graph is None:
            self.graph = self._capture()
        self.graph.replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Other threads of this process may go on with the device meanwhile (`thread_local`)."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.work()
        return graph
