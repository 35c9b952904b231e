"""The training loop of a bucket: epochs until each network has stopped improving, with CUDA graphs for small buckets.

Example:
    >>> loop = TrainingLoop(nets, history, validation, rows=16, options=options)
    >>> loop.train(on_finished=lambda positions, best: ...)        # called with finished networks, as often as it takes

An epoch is STEPS_PER_EPOCH steps and then the loss on the held-out rows. A network that has not improved for
EARLY_STOPPING_PATIENCE epochs is finished: it keeps the weights of its best epoch and leaves the stack.

An epoch needs nothing from the host and changes tensors in place, so that a CUDA device can capture it once and replay it
(`GraphedCallable`). This pays for small buckets, whose several hundred kernels take longer to launch than to run. There finished
networks stay in the stack until all are finished, because a stack of another shape would have to be captured again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fingerprint.core import settings
from fingerprint.training.nn import hyperparameters
from fingerprint.training.nn.batching import network_bytes
from fingerprint.training.nn.network import Adam, Parameters, StackedNetworks
from fingerprint.training.nn.sampling import TrainingRows

Work = Callable[[], None]

Tensor = torch.Tensor
OnFinished = Callable[[Tensor, Parameters], None]  # places in the bucket (M,), their weights
# Bytes of a bucket: a larger one runs longer than the 650 kernels of an epoch take to launch
MAX_GRAPH_BYTES = 128 << 20


def supports_cuda_graphs(device: torch.device) -> bool:
    """Return whether work can be captured on a device.

    It cannot if torch uses memory of another allocator (RMM), which would give away memory that a graph uses.
    """
    return device.type == "cuda" and torch.cuda.get_allocator_backend() != "pluggable"


class GraphedCallable:
    """Repeated work on a CUDA device, captured once as a graph and replayed.

    The first call runs the work, because libraries set themselves up then, which cannot be captured. The second call captures
    it, and later calls replay it: kernels at fixed addresses, no Python, no allocation. So `work` takes and returns nothing,
    changes tensors in place that live as long as it does, and never reads the value of a tensor. The graph has its own memory,
    which is freed with it.

    Example:
        >>> run = GraphedCallable(loop.run_epoch)
        >>> for _ in range(20):
        ...     run()
    """

    def __init__(self, work: Work) -> None:
        self.work, self.warmed_up = work, False
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run, capture or replay the work."""
        if not self.warmed_up:
            self.work()
            self.warmed_up = True
            return
        if self.graph is None:
            self.graph = self._capture()
        self.graph.replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Return the captured graph; other threads may use the device in between (`thread_local`)."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.work()
        return graph


class TrainingLoop:
    """The networks of a bucket that are still being trained, P at the start.

    `positions` (P,) are their places in the bucket, `best_weights` the best weights so far, `best_loss` (P,) their loss,
    `epochs_since_best` (P,) the epochs since then.
    """

    def __init__(
        self,
        nets: StackedNetworks,
        history: TrainingRows,
        check: Tensor,
        rows: int,
        options: settings.Autoencoder,
    ) -> None:
        self.nets, self.history, self.validation, self.options = nets, history, check, options
        self.rows, device = rows, check.device
        self.use_cuda_graph = supports_cuda_graphs(device) and _estimate_bytes(nets, rows) <= MAX_GRAPH_BYTES
        self.optimiser = Adam(nets.parameters, hyperparameters.LEARNING_RATE, self.use_cuda_graph)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.positions = torch.arange(len(check), device=device)
        self.epochs_since_best = torch.zeros_like(self.positions)
        self.best_weights: Parameters = (
            nets.inputs.clone(),
            nets.bias.clone(),
            torch.zeros_like(nets.outputs),
        )
        self.best_loss = StackedNetworks(*self.best_weights, nets.base).losses(check, check)

    def train(self, on_finished: OnFinished) -> None:
        """Run epochs until no network improves, or `max_epochs`."""
        again = GraphedCallable(self.run_epoch) if self.use_cuda_graph else self.run_epoch
        for _ in range(self.options.max_epochs):
            again()
            self.retire_finished(on_finished)
            if not len(self.positions):
                return
        on_finished(self.positions, self.best_weights)

    def run_epoch(self) -> None:
        """Run one epoch, in place."""
        for _ in range(hyperparameters.STEPS_PER_EPOCH):
            seen, target = self.history.sample(self.step, self.rows, hyperparameters.SWAP_SHARE)
            self.optimiser.step(
                self.nets.parameters, self.nets.gradients(seen, target, hyperparameters.WEIGHT_DECAY)
            )
            self.step += 1
        now = self.nets.losses(self.validation, self.validation)
        better = (now < self.best_loss) & (self.epochs_since_best < hyperparameters.EARLY_STOPPING_PATIENCE)
        self.epochs_since_best.add_(1).masked_fill_(better, 0)
        for kept, new in zip((self.best_loss, *self.best_weights), (now, *self.nets.parameters), strict=True):
            torch.where(better.view(-1, *[1] * (kept.ndim - 1)), new, kept, out=kept)

    def retire_finished(self, on_finished: OnFinished) -> None:
        """Hand finished networks to `on_finished`; if epochs are replayed as a graph, all networks at the same time."""
        going = self.epochs_since_best < hyperparameters.EARLY_STOPPING_PATIENCE
        done = len(going) - int(going.sum())
        if done and (done == len(going) or not self.use_cuda_graph):
            left, stay = ((~going).nonzero()[:, 0], going.nonzero()[:, 0])
            on_finished(self.positions[left], self._select_best(left))
            self._keep(stay)

    def _keep(self, stay: Tensor) -> None:
        self.nets, self.history = self.nets.take(stay), self.history.take(stay)
        self.optimiser.take(stay)
        self.positions, self.epochs_since_best, self.best_loss, self.validation = (
            each[stay] for each in (self.positions, self.epochs_since_best, self.best_loss, self.validation)
        )
        self.best_weights = self._select_best(stay)

    def _select_best(self, which: Tensor) -> Parameters:
        """Return the best weights of some networks."""
        inputs, bias, outputs = self.best_weights
        return inputs[which], bias[which], outputs[which]


def _estimate_bytes(nets: StackedNetworks, rows: int) -> int:
    """Return about how many bytes the networks take while they are fitted."""
    count, _, hidden, slots = nets.inputs.shape
    return count * network_bytes(rows, slots, hidden)
