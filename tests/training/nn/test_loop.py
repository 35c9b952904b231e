"""An epoch that a device replays as a graph: its fake here gives the nets of one that is called, and refuses what CUDA does."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from fingerprint.core.settings import Autoencoder
from fingerprint.training.nn import hyperparameters, loop, stacked
from tests.training.nn.test_trainer import OPTIONS, SIZES, History8, same, stacked_on_a_cpu

torch = pytest.importorskip("torch")

from fake_cuda_graphs import Recorded, Refused  # noqa: E402 - they need torch

ALL = list(range(len(SIZES)))
SHORT = OPTIONS.model_copy(update={"max_epochs": 3})  # epochs: one is called, one recorded, one replayed
LONG = OPTIONS.model_copy(update={"max_epochs": 6})


@pytest.fixture(scope="module")
def history() -> History8:
    return History8(stacked_on_a_cpu)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """Epochs are replayed here as on a device; what was recorded."""
    made: list[Recorded] = []

    def record(work: object) -> Recorded:
        made.append(Recorded(work))
        return made[-1]

    monkeypatch.setattr(loop, "supports_cuda_graphs", lambda device: True)
    monkeypatch.setattr(loop, "GraphedCallable", record)
    return made


@pytest.mark.parametrize(("options", "patience"), [(SHORT, 2), (LONG, 1)])
def test_epochs_that_are_replayed_give_the_nets_of_epochs_that_are_called(
    history: History8,
    options: Autoencoder,
    patience: int,
    recorded: list[Recorded],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hyperparameters, "EARLY_STOPPING_PATIENCE", patience)
    replayed = history.fit(ALL, options)
    assert sum(each.recorder is not None for each in recorded) >= 3  # the generic net, and several buckets
    monkeypatch.undo()
    monkeypatch.setattr(hyperparameters, "EARLY_STOPPING_PATIENCE", patience)
    called = history.fit(ALL, options)
    for place in ALL:
        same(replayed, place, called, place)


def test_who_is_done_stays_in_a_stack_that_is_replayed_and_changes_no_more(
    history: History8, recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one bucket stop at different epochs; each comes home as it was at its best, all together."""
    homes: list[int] = []
    put = stacked._store_weights

    def counted(stack: object, places: object, done: torch.Tensor, best: object) -> None:
        homes.append(len(done))
        put(stack, places, done, best)

    monkeypatch.setattr(stacked, "_store_weights", counted)
    monkeypatch.setattr(hyperparameters, "EARLY_STOPPING_PATIENCE", 1)
    together = history.fit(ALL, LONG)
    assert len(homes) == len(recorded)
    assert max(homes) >= 3
    same(history.fit([0, 3], LONG), 1, together, 3)


def test_a_large_bucket_is_not_replayed(
    history: History8, recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "MAX_GRAPH_BYTES", 0)
    history.fit([0, 3], OPTIONS.model_copy(update={"max_epochs": 1}))
    assert recorded == []


def test_a_count_that_python_keeps_is_frozen_and_one_in_a_tensor_counts() -> None:
    class Counting:
        kept, there, seen = 0, torch.zeros(()), torch.zeros(2)

        def work(self) -> None:
            self.kept += 1
            self.there += 1
            self.seen[0] = self.kept
            self.seen[1] = self.there

    counting = Counting()
    again = Recorded(counting.work)
    for _ in range(5):
        again()
    assert counting.seen.tolist() == [2, 5]


def test_a_tensor_put_in_anothers_place_is_not_seen_by_the_next_replay() -> None:
    class Rebinding:
        total = torch.zeros(())

        def work(self) -> None:
            self.total = self.total + 1

    rebinding = Rebinding()
    again = Recorded(rebinding.work)
    for _ in range(5):
        again()
    assert float(rebinding.total) == 2


@pytest.mark.parametrize(
    "work",
    [
        lambda numbers: float(numbers.sum()),
        lambda numbers: numbers[numbers > 1],
        lambda numbers: numbers.nonzero(),
        lambda numbers: numbers.masked_fill_(numbers > 0, 1) if numbers.any() else None,
        lambda numbers: numbers + torch.tensor([1.0, 2.0, 3.0]),
    ],
    ids=["a number", "a mask", "places", "a question", "numbers of the host"],
)
def test_what_cannot_be_captured_is_refused(work: object) -> None:
    numbers = torch.arange(3.0)
    again = Recorded(lambda: work(numbers))
    again()
    with pytest.raises(Refused, match="not permitted when stream is capturing"):
        again()


def test_nothing_is_captured_on_a_cpu() -> None:
    assert not loop.supports_cuda_graphs(torch.device("cpu"))


# --- on a device --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_device() -> History8:
    return History8()


@pytest.fixture
def cuda() -> Autoencoder:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return LONG.model_copy(update={"device": "cuda"})


@pytest.mark.gpu
def test_a_graph_gives_the_nets_of_epochs_that_are_called(
    on_device: History8, cuda: Autoencoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = on_device.fit(ALL, cuda)
    monkeypatch.setattr(loop, "GraphedCallable", lambda work: work)
    called = on_device.fit(ALL, cuda)
    for place in ALL:
        same(graph, place, called, place)


@pytest.mark.gpu
def test_a_fit_gives_the_memory_of_a_device_back(on_device: History8, cuda: Autoencoder) -> None:
    on_device.fit(ALL, cuda)  # what libraries keep, they keep from here on
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        on_device.fit(ALL, cuda)
    gc.collect()
    assert torch.cuda.memory_allocated() <= before


@pytest.mark.gpu
def test_buckets_of_a_device_are_sized_by_what_is_free_there(cuda: Autoencoder) -> None:
    from fingerprint.training.nn.device import MAX_BUCKET_BYTES, bucket_memory_bytes, select_device

    device = select_device(cuda.device)
    before = bucket_memory_bytes(device)
    taken = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.9), dtype=torch.uint8, device=device)
    assert bucket_memory_bytes(device) < before <= MAX_BUCKET_BYTES
    del taken


@pytest.mark.gpu
def test_what_comes_home_from_a_device_is_what_lay_there(cuda: Autoencoder) -> None:
    from fingerprint.training.nn.device import to_numpy

    numbers = torch.arange(1 << 20, device="cuda").to(torch.float16)
    [came] = to_numpy(numbers)
    np.testing.assert_array_equal(came, numbers.cpu().numpy())
