"""The training loop of a bucket: epoch after epoch, until each network has stopped improving; and CUDA graphs for small buckets.

Example:
    >>> loop = TrainingLoop(nets, history, validation, rows=16, options=options)
    >>> loop.train(on_finished=lambda positions, best: ...)        # called with finished networks, as often as it takes

An epoch is STEPS_PER_EPOCH steps, then the loss of the held-out rows. A network that has not improved for
EARLY_STOPPING_PATIENCE epochs is finished: it keeps the weights of its best epoch, nothing that is computed later changes them,
and it leaves the stack.

An epoch asks the host for nothing and changes tensors in place, so that a CUDA device can capture it once and replay it
(`GraphedCallable`). That pays for small buckets, which compute for less time than their several hundred kernels take to launch;
there finished networks stay until all are finished, because another shape would have to be captured again.
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
# Bytes of a bucket: a larger one computes for longer than its 650 kernels an epoch take to launch
MAX_GRAPH_BYTES = 128 << 20


def supports_cuda_graphs(device: torch.device) -> bool:
    """Return whether work can be captured on a device.

    Not where torch borrows its memory (RMM's): memory that a graph uses would be given away.
    """
    return device.type == "cuda" and torch.cuda.get_allocator_backend() != "pluggable"


class GraphedCallable:
    """Repeated work on a CUDA device, captured once as a graph and replayed.

    The first call runs the work (libraries set themselves up then, which cannot be captured), the second captures it, later ones
    replay it: kernels at fixed addresses, no Python, no allocation. So `work` takes and returns nothing, changes in place tensors
    that live as long as it does, and never asks a tensor for its value. The graph's memory is its own, and goes with it.

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

    `positions` (P,) in the bucket, `best_weights` so far, their loss `best_loss` (P,), `epochs_since_best` (P,).
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
        """Hand finished networks to `on_finished`; where epochs are replayed, all at once."""
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
