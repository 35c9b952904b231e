"""The nets of a bucket on their way: epoch after epoch, until each has stopped improving; what they found comes home.

Example:
    >>> run = Run(nets, history, check, options)
    >>> run.train(rows=16, home=lambda places, best: ...)     # called with those that are done, as often as it takes

An epoch is STEPS steps, then a look at the rows held out. It asks the host for nothing and changes tensors in place, so that
a CUDA device replays it (`replaying`). Who has brought nothing better for `patience` epochs is done: its weights are those of
its best epoch, and nothing that is computed after changes them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fingerprint import replaying, settings
from fingerprint.drawing import History
from fingerprint.nets import Adam, Nets, Parameters

Tensor = torch.Tensor
Home = Callable[[Tensor, Parameters], None]  # places in the bucket (M,), their weights

STEPS = 8  # in an epoch
DECAY = 1e-3
# Who is done leaves the stack at once on a CPU, where each net costs time. A device waits until half of the stack is done:
# an epoch of fewer nets has to be captured anew.
DONE_SHARE = {"cpu": 0.0, "cuda": 0.5}


class Run:
    """P nets, those that are still in the stack: `place` (P,) in the bucket, `best` weights so far, the loss `least` (P,) that
    these had, `waited` (P,) epochs since."""

    def __init__(self, nets: Nets, history: History, check: Tensor, options: settings.Autoencoder) -> None:
        self.nets, self.history, self.check, self.options = nets, history, check, options
        self.optimiser = Adam(nets.parameters, options.learning_rate, replaying.replayed(check.device))
        self.step = torch.zeros((), dtype=torch.int64, device=check.device)
        self.place = torch.arange(len(check), device=check.device)
        self.waited = torch.zeros_like(self.place)
        self.best: Parameters = (nets.inputs.clone(), nets.bias.clone(), torch.zeros_like(nets.outputs))
        self.least = Nets(*self.best, nets.base).losses(check, check)

    def train(self, rows: int, home: Home) -> None:
        """Epochs of steps of so many rows each, as many as somebody gains by."""
        again = replaying.repeated(lambda: self.epoch(rows), self.check.device)
        for _ in range(self.options.epochs):
            again()
            if self.leave(home):
                again = replaying.repeated(lambda: self.epoch(rows), self.check.device)
            if not len(self.place):
                return
        home(self.place, self.best)

    def epoch(self, rows: int) -> None:
        """One epoch, in place."""
        for _ in range(STEPS):
            seen, wanted = self.history.draw(self.step, rows, self.options.swap)
            self.optimiser.step(self.nets.parameters, self.nets.gradients(seen, wanted, DECAY))
            self.step += 1
        now = self.nets.losses(self.check, self.check)
        better = (now < self.least) & (self.waited < self.options.patience)
        self.waited.add_(1).masked_fill_(better, 0)
        for kept, new in zip((self.least, *self.best), (now, *self.nets.parameters), strict=True):
            torch.where(better.view(-1, *[1] * (kept.ndim - 1)), new, kept, out=kept)

    def leave(self, home: Home) -> bool:
        """Those that are done go home, if they are enough; whether they did."""
        going = self.waited < self.options.patience
        done = len(going) - int(going.sum())
        if not done or done < len(going) * DONE_SHARE[self.check.device.type]:
            return False
        left, stay = ((~going).nonzero()[:, 0], going.nonzero()[:, 0])
        home(self.place[left], self._some(left))
        self._take(stay)
        return True

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
