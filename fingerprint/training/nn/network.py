"""Many networks as one program of stacked tensors: their loss, its gradients, and a step of Adam.

Example:
    >>> optimiser = Adam(nets.parameters, rate=0.02)
    >>> optimiser.step(nets.parameters, nets.gradients(corrupted, target, decay=1e-3))

The gradients are written out as five batched products, instead of a recorded graph. The layout (rows last) lets every product
read its operands without a copy. The test of this module compares the gradients with those of autograd.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from fingerprint.estimators.autoencoder import FREE_FEATURES, VISIBLE_MASK
from fingerprint.training.nn.hyperparameters import EPSILON, MEAN_DECAY, SQUARE_DECAY

Tensor = torch.Tensor
Parameters = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class StackedNetworks:
    """P networks with H hidden units over K slots: `inputs` (P, F, H, K), `bias` (P, H), `outputs` (P, G, H, K).

    They correct `base` (P, G, K), the log-likelihoods of the slots.
    """

    inputs: Tensor
    bias: Tensor
    outputs: Tensor
    base: Tensor

    @property
    def parameters(self) -> Parameters:
        """Inputs, bias and outputs, the tensors that a step changes."""
        return self.inputs, self.bias, self.outputs

    def take(self, which: Tensor) -> StackedNetworks:
        """Return some of the networks."""
        return StackedNetworks(self.inputs[which], self.bias[which], self.outputs[which], self.base[which])

    def losses(self, corrupted: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross-entropy of each network's rows, summed over features: slots (P, F, B) each -> (P,) nats."""
        logits = self._logits(self._hidden(corrupted))
        taken = logits.gather(1, _reconstructed_slots(target))[:, 0]
        each = torch.logsumexp(logits, dim=1) - taken  # (P G, B)
        return each.view(len(self.bias), -1).sum(-1) / corrupted.shape[-1]

    def gradients(self, corrupted: Tensor, target: Tensor, decay: float) -> Parameters:
        """Return B times the gradients of the loss plus `decay` x squared weights, for each parameter."""
        nets, features, hidden, slots = self.inputs.shape
        rows = corrupted.shape[-1]
        units = self._hidden(corrupted)  # (P G, H, B)
        wrong = torch.softmax(self._logits(units), dim=1)  # (P G, K, B)
        wrong.scatter_add_(
            1, _reconstructed_slots(target), wrong.new_full((1, 1, 1), -1.0).expand(len(wrong), 1, rows)
        )
        # (P G, H, K)
        outputs = torch.baddbmm(self.outputs.view(-1, hidden, slots), units, wrong.mT, beta=2 * decay * rows)
        blame = torch.bmm(self.outputs.view(-1, hidden, slots), wrong)
        blame = torch.ops.aten.tanh_backward(blame, units).view(nets, -1, hidden * rows)  # (P, G, H B)
        # (P, F, H B)
        embedded = torch.bmm(_feature_masks(self.bias.device)[0].mT.expand(nets, -1, -1), blame)
        shown = embedded.new_zeros(nets * features, slots, rows)
        shown.scatter_(1, corrupted.view(-1, 1, rows), 1.0)
        inputs = torch.baddbmm(
            self.inputs.view(-1, hidden, slots),
            embedded.view(-1, hidden, rows),
            shown.mT,  # adding row by row would have no fixed order on a GPU
            beta=2 * decay * rows,
        )
        bias = blame.view(nets, -1, hidden, rows).sum((1, 3))
        return inputs.view_as(self.inputs), bias, outputs.view_as(self.outputs)

    def _hidden(self, seen: Tensor) -> Tensor:
        """Return the hidden units, those of each feature from the others: slots (P, F, B) -> (P G, H, B)."""
        nets, features, hidden, _ = self.inputs.shape
        rows = seen.shape[-1]
        embedded = self.inputs.gather(3, seen[:, :, None].expand(-1, -1, hidden, -1))
        visible = _feature_masks(self.bias.device)[0].expand(nets, -1, -1)
        units = torch.bmm(visible, embedded.view(nets, features, -1)).view(nets, -1, hidden, rows)
        return units.add_(self.bias[:, None, :, None]).tanh_().view(-1, hidden, rows)

    def _logits(self, hidden: Tensor) -> Tensor:
        """Return the corrected log likelihoods, not normalised: (P G, H, B) -> (P G, K, B)."""
        units, slots = self.outputs.shape[2:]
        return torch.baddbmm(self.base.view(-1, slots, 1), self.outputs.view(-1, units, slots).mT, hidden)


def _reconstructed_slots(slots: Tensor) -> Tensor:
    """Return the slots of the features that are reconstructed: (P, F, B) -> (P G, 1, B)."""
    return slots[:, _feature_masks(slots.device)[1]].view(-1, 1, slots.shape[-1])


@cache
def _feature_masks(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return VISIBLE_MASK (G, F) and FREE_FEATURES (G,) on the device of the networks."""
    return torch.from_numpy(VISIBLE_MASK).to(device), torch.from_numpy(FREE_FEATURES).to(device)


class Adam:
    """Adam (Kingma and Ba 2015), with the authors' constants; torch's own takes seconds to import a compiler.

    Its state, including the number of steps, is on the device of the parameters and is changed in place. If it is `capturable`,
    it reads no value of a tensor: that costs one more pass over memory, and the result has the same bits.
    """

    def __init__(self, parameters: Parameters, rate: float, capturable: bool = False) -> None:
        self.rate, self.capturable = rate, capturable
        self.steps = torch.zeros((), dtype=torch.float64, device=parameters[0].device)
        self.means = [(torch.zeros_like(part), torch.zeros_like(part)) for part in parameters]

    def step(self, parameters: Parameters, gradients: Parameters) -> None:
        """Move the parameters against their gradients, in place."""
        self.steps += 1
        back = -self.rate * (1 - SQUARE_DECAY**self.steps).sqrt() / (1 - MEAN_DECAY**self.steps)
        for part, gradient, (mean, square) in zip(parameters, gradients, self.means, strict=True):
            mean.lerp_(gradient, 1 - MEAN_DECAY)
            square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1 - SQUARE_DECAY)
            root = square.sqrt().add_(EPSILON)
            if self.capturable:
                part.addcdiv_(mean * back, root)
            else:
                part.addcdiv_(mean, root, value=float(back))

    def take(self, which: Tensor) -> None:
        """Keep the state of some of the networks."""
        self.means = [(mean[which], square[which]) for mean, square in self.means]
