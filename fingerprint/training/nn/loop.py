"""The nets of a bucket on their way: epoch after epoch, until each has stopped improving; what they found comes home.

Example:
    >>> run = Run(nets, history, check, rows=16, options=options)
    >>> run.train(home=lambda places, best: ...)        # called with those that are done, as often as it takes

An epoch is STEPS steps, then a look at the rows held out. Who has brought nothing better for `patience` epochs is done: its
weights are those of its best epoch, nothing that is computed after changes them, and it leaves the stack.

An epoch asks the host for nothing and changes tensors in place, so that a CUDA device can replay it (`replaying`). That pays for
small buckets, which compute for less time than their launching takes; there those that are done stay until all are, or it would
have to be captured anew.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fingerprint.core import settings
from fingerprint.training.nn.batching import network_bytes
from fingerprint.training.nn.network import Adam, Parameters, StackedNetworks
from fingerprint.training.nn.sampling import TrainingRows

Work = Callable[[], None]

LEARNING_RATE = 0.02  # of Adam
SWAP_SHARE = 0.15  # of inputs that are swapped for another row's while training
EARLY_STOPPING_PATIENCE = 2  # epochs without improvement on held-out rows, after which a net stops
Tensor = torch.Tensor
OnFinished = Callable[[Tensor, Parameters], None]  # places in the bucket (M,), their weights
STEPS_PER_EPOCH = 8  # in an epoch
WEIGHT_DECAY = 1e-3
MAX_GRAPH_BYTES = (
    128 << 20
)  # bytes of a bucket: a larger one computes for longer than its 650 kernels an epoch take to launch


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


class TrainingLoop:
    """P nets, those that are still in the stack: `place` (P,) in the bucket, `best` weights so far, the loss `least` (P,) that
    these had, `waited` (P,) epochs since."""

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
        self.optimiser = Adam(nets.parameters, LEARNING_RATE, self.use_cuda_graph)
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
        """Epochs, as many as somebody gains by."""
        again = GraphedCallable(self.run_epoch) if self.use_cuda_graph else self.run_epoch
        for _ in range(self.options.max_epochs):
            again()
            self.retire_finished(on_finished)
            if not len(self.positions):
                return
        on_finished(self.positions, self.best_weights)

    def run_epoch(self) -> None:
        """One epoch, in place."""
        for _ in range(STEPS_PER_EPOCH):
            seen, wanted = self.history.sample(self.step, self.rows, SWAP_SHARE)
            self.optimiser.step(self.nets.parameters, self.nets.gradients(seen, wanted, WEIGHT_DECAY))
            self.step += 1
        now = self.nets.losses(self.validation, self.validation)
        better = (now < self.best_loss) & (self.epochs_since_best < EARLY_STOPPING_PATIENCE)
        self.epochs_since_best.add_(1).masked_fill_(better, 0)
        for kept, new in zip((self.best_loss, *self.best_weights), (now, *self.nets.parameters), strict=True):
            torch.where(better.view(-1, *[1] * (kept.ndim - 1)), new, kept, out=kept)

    def retire_finished(self, on_finished: OnFinished) -> None:
        """Those that are done go home; where epochs are replayed, all at once."""
        going = self.epochs_since_best < EARLY_STOPPING_PATIENCE
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
        """The best weights of some."""
        inputs, bias, outputs = self.best_weights
        return inputs[which], bias[which], outputs[which]


def _estimate_bytes(nets: StackedNetworks, rows: int) -> int:
    """About what they take while they are fitted."""
    count, _, hidden, slots = nets.inputs.shape
    return count * network_bytes(rows, slots, hidden)
