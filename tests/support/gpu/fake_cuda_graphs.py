"""A fake of CUDA graphs in this process' own memory, as strict as they are: for tests of work that a device replays.

Example:
    >>> again = Recorded(run.epoch)
    >>> again()                         # works, as `loop.GraphedCallable` does the first time
    >>> again()                         # is recorded: every operation, with the tensors that it read and wrote
    >>> again()                         # the operations are done again, on those very tensors. No Python runs

So what a graph would freeze is frozen here: a count that Python keeps, a tensor that was put in another's place. What cannot be
captured is refused: asking a tensor for its value, shapes that depend on values, tensors made of Python's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ASKS = {
    "_local_scalar_dense",  # int(tensor), if tensor
    "nonzero",
    "masked_select",
    "unique2",
    "_unique2",
    "unique_dim",
    "equal",
    "lift_fresh",  # torch.tensor([1, 2]): a copy up, from memory that is not pinned
}
PLACED = {"index", "index_put", "index_put_", "_index_put_impl_"}  # by a mask these ask how many are true


class Refused(RuntimeError):
    """As the driver says it: operation not permitted when stream is capturing."""


class Recorded:
    def __init__(self, work: Callable[[], None]) -> None:
        self.work, self.warm = work, False
        self.recorder: Recorder | None = None

    def __call__(self) -> None:
        if not self.warm:
            self.work()
            self.warm = True
        elif self.recorder is None:
            self.recorder = Recorder()
            with self.recorder:  # captured and replayed for the first time
                self.work()
        else:
            self.recorder.replay()


class Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ASKS or (name in PLACED and any(_is_mask(each) for each in args[1])):
            raise Refused(f"operation not permitted when stream is capturing: {name}")
        out = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        for func, args, kwargs, out in self.done:
            for was, now in zip(_tensors(out), _tensors(func(*args, **kwargs)), strict=True):
                if (
                    was.data_ptr() != now.data_ptr()
                ):  # else it is the same memory: a view, or changed in place
                    was.copy_(now)


def _is_mask(place: Any) -> bool:
    return isinstance(place, torch.Tensor) and place.dtype == torch.bool


def _tensors(out: Any) -> list[torch.Tensor]:
    return [out] if isinstance(out, torch.Tensor) else [each for each in out or () if each is not None]
