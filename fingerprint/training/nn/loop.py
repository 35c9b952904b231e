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
from fingerprint.training.nn import cuda_graphs
from fingerprint.training.nn.batching import bytes_of
from fingerprint.training.nn.network import Adam, Nets, Parameters
from fingerprint.training.nn.sampling import History

Tensor = torch.Tensor
Home = Callable[[Tensor, Parameters], None]  # places in the bucket (M,), their weights

STEPS = 8  # in an epoch
DECAY = 1e-3
REPLAYED = (
    128 << 20
)  # bytes of a bucket: a larger one computes for longer than its 650 kernels an epoch take to launch


class Run:
    """P nets, those that are still in the stack: `place` (P,) in the bucket, `best` weights so far, the loss `least` (P,) that
    these had, `waited` (P,) epochs since."""

    def __init__(
        self, nets: Nets, history: History, check: Tensor, rows: int, options: settings.Autoencoder
    ) -> None:
        self.nets, self.history, self.check, self.options = nets, history, check, options
        self.rows, device = rows, check.device
        self.replayed = cuda_graphs.replayed(device) and _bytes(nets, rows) <= REPLAYED
        self.optimiser = Adam(nets.parameters, options.learning_rate, self.replayed)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.place = torch.arange(len(check), device=device)
        self.waited = torch.zeros_like(self.place)
        self.best: Parameters = (nets.inputs.clone(), nets.bias.clone(), torch.zeros_like(nets.outputs))
        self.least = Nets(*self.best, nets.base).losses(check, check)

    def train(self, home: Home) -> None:
        """Epochs, as many as somebody gains by."""
        again = cuda_graphs.Captured(self.epoch) if self.replayed else self.epoch
        for _ in range(self.options.epochs):
            again()
            self.leave(home)
            if not len(self.place):
                return
        home(self.place, self.best)

    def epoch(self) -> None:
        """One epoch, in place."""
        for _ in range(STEPS):
            seen, wanted = self.history.draw(self.step, self.rows, self.options.swap)
            self.optimiser.step(self.nets.parameters, self.nets.gradients(seen, wanted, DECAY))
            self.step += 1
        now = self.nets.losses(self.check, self.check)
        better = (now < self.least) & (self.waited < self.options.patience)
        self.waited.add_(1).masked_fill_(better, 0)
        for kept, new in zip((self.least, *self.best), (now, *self.nets.parameters), strict=True):
            torch.where(better.view(-1, *[1] * (kept.ndim - 1)), new, kept, out=kept)

    def leave(self, home: Home) -> None:
        """Those that are done go home; where epochs are replayed, all at once."""
        going = self.waited < self.options.patience
        done = len(going) - int(going.sum())
        if done and (done == len(going) or not self.replayed):
            left, stay = ((~going).nonzero()[:, 0], going.nonzero()[:, 0])
            home(self.place[left], self._some(left))
            self._take(stay)

    def _take(self, stay: Tensor) -> None:
        self.nets, self.history = self.nets.take(stay), self.history.take(stay)
        self.optimiser.take(stay)
        self.place, self.waited, self.least, self.check = (
            each[stay] for each in (self.place, self.waited, self.least, self.check)
        )
        self.best = self._some(stay)

    def _some(self, which: Tensor) -> Parameters:
        """The best weights of some."""
        inputs, bias, outputs = self.best
        return inputs[which], bias[which], outputs[which]


def _bytes(nets: Nets, rows: int) -> int:
    """About what they take while they are fitted."""
    count, _, hidden, slots = nets.inputs.shape
    return count * bytes_of(rows, slots, hidden)
