"""Many nets fitted at once: each for itself, anyone who is fitted beside it; autograd judges the gradients written out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fingerprint.compute import cuda
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Autoencoder, Settings
from fingerprint.estimators import autoencoder
from fingerprint.estimators.autoencoder import FREE_FEATURES, VISIBLE_MASK, Weights
from fingerprint.features.encoding import FEATURE_NAMES, FEATURES
from fingerprint.features.vocabulary import Vocabulary, build_vocabulary, count_presences
from fingerprint.registry.bank_files import open_bank
from fingerprint.training.nn import compiled, hyperparameters, trainer
from fingerprint.training.nn.batching import fitted_slots, make_buckets, network_bytes, rows_per_step
from fingerprint.training.nn.hyperparameters import BLANK_SHARE
from fingerprint.training.nn.trainer import (
    BucketFitter,
    InitialWeights,
    SlotRows,
    TrainingData,
    fit_autoencoders,
    select_fitter,
)
from fingerprint.training.nn.warm_start import remap_weights
from pipelines.train import train_bank
from tests.support.sample_organisation import SETTINGS, SampleOrganisation, no_progress

torch = pytest.importorskip("torch")

from fingerprint.training.nn import loop, stacked  # noqa: E402 - they need torch
from fingerprint.training.nn.network import Adam, StackedNetworks  # noqa: E402
from fingerprint.training.nn.sampling import TrainingRows, splitmix  # noqa: E402
from fingerprint.training.nn.stacked import initial_networks  # noqa: E402

F, G = len(FEATURES), len(FREE_FEATURES)
ACTION, PROGRAM = FEATURE_NAMES.index("action"), FEATURE_NAMES.index("program")
SLOTS = 12
SIZES = (600, 9, 30, 80, 300, 75, 12, 200)  # rows of the fingerprints, the generic one first
OPTIONS = Autoencoder(max_epochs=5)
KEYS = np.random.default_rng(9).integers(0, 1 << 63, len(SIZES)).astype(np.uint64)

Codes = NDArray[np.uint64]


def habits(rows: int, values: int, random: np.random.Generator) -> Codes:
    """Programs, each with actions of its own: what goes with what can be learned, and differs by who does it."""
    codes = random.integers(1, 3, (rows, F)).astype(np.uint64)
    program = random.integers(0, values, rows).astype(np.uint64)
    codes[:, PROGRAM] = 10 + program
    codes[:, ACTION] = 100 + program * 2 + random.integers(0, 2, rows).astype(np.uint64)
    return codes


class History8:
    """Eight fingerprints of different size and variety, under one generic one; two thirds fitted, the rest held out."""

    def __init__(self, make_fitter: Callable[[TrainingData], BucketFitter] | None = None) -> None:
        self.make_fitter = make_fitter
        random = np.random.default_rng(3)
        codes = [habits(size, 2 + place % 4, random) for place, size in enumerate(SIZES)]
        owner = np.repeat(np.arange(len(SIZES)), SIZES).astype(np.int32)
        late = np.concatenate([np.arange(size) >= size * 2 // 3 for size in SIZES])
        self.codes, self.owner, self.late = np.concatenate(codes), owner, late
        unit = np.arange(len(owner), dtype=np.uint64)
        parent = np.array([-1] + [0] * (len(SIZES) - 1), np.int32)
        levels = [
            count_presences(owner[which], unit[which], self.codes[which])
            for which in (~late & (owner == 0), ~late & (owner > 0))
        ]
        self.known: Vocabulary = build_vocabulary(levels, parent, SLOTS)
        slots = self.known.look_up(owner, self.codes)[1]
        self.rows, self.held = (
            SlotRows.from_fingerprints(owner[which], slots[which], len(SIZES)) for which in (~late, late)
        )

    def fit(
        self,
        ready: list[int],
        options: Autoencoder = OPTIONS,
        start: InitialWeights | None = None,
        seed: int = 0,
    ) -> Weights:
        return fit_autoencoders(
            self.known,
            self.rows,
            self.held,
            np.array(ready),
            options,
            start=start,
            keys=KEYS,
            seed=seed,
            make_fitter=self.make_fitter,
        )

    def training_data(self, options: Autoencoder) -> TrainingData:
        return TrainingData(self.known, self.rows, self.held, KEYS, options)

    def gain(self, nets: Weights, fingerprint: int) -> float:
        """Nats by which a net reconstructs the rows held out better than the counts do."""
        slots = self.held.slots[self.held.bounds[fingerprint] : self.held.bounds[fingerprint + 1]]
        at = np.full(len(slots), fingerprint, np.int32)
        return float(autoencoder.correction(nets, self.known.base, at, slots).sum(1).mean())


def stacked_on_a_cpu(data: TrainingData) -> BucketFitter:
    """What a device does, done here: the judge of what a CPU does."""
    return stacked.StackedFitter(data, torch.device("cpu"))


@pytest.fixture(scope="module", params=[trainer.CompiledFitter, stacked_on_a_cpu], ids=["compiled", "torch"])
def history(request: pytest.FixtureRequest) -> Iterator[History8]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")  # compiled code fits two nets at a time
        yield History8(request.param)


@pytest.fixture(scope="module")
def all_of_them(history: History8) -> Weights:
    return history.fit(list(range(len(SIZES))))


def same(one: Weights, place: int, other: Weights, at: int) -> None:
    for name in ("inputs", "bias", "outputs"):
        np.testing.assert_allclose(getattr(one, name)[place], getattr(other, name)[at], atol=1e-6, rtol=0)


# --- each for itself --------------------------------------------------------------------------------------------------


def test_a_net_is_the_same_anyone_who_is_fitted_beside_it(history: History8, all_of_them: Weights) -> None:
    few = history.fit([0, 3, 6])
    for place, fingerprint in enumerate((0, 3, 6)):
        same(few, place, all_of_them, fingerprint)


def test_pieces_fitted_elsewhere_from_the_same_start_give_the_same_nets(
    history: History8, all_of_them: Weights
) -> None:
    start = InitialWeights.from_weights(history.fit([0]), history.known.codes)
    for piece in ([1, 4, 5], [2, 3, 6, 7]):
        nets = history.fit(piece, start=start)
        for place, fingerprint in enumerate(piece):
            same(nets, place, all_of_them, fingerprint)


def test_a_net_follows_its_key_where_the_fingerprint_has_another_number(
    history: History8, all_of_them: Weights
) -> None:
    """In another piece the fingerprints 4 and 7 are 2 and 1."""
    renamed = np.array([0, 7, 4])
    rows, held = (
        SlotRows(
            np.concatenate([each.slots[each.bounds[at] : each.bounds[at + 1]] for at in renamed]),
            np.concatenate([[0], np.cumsum(each.counts[renamed])]),
        )
        for each in (history.rows, history.held)
    )
    known = replace(
        history.known,
        base=history.known.base[renamed],
        codes=history.known.codes[renamed],
        parent=np.array([-1, 0, 0], np.int32),
    )
    nets = fit_autoencoders(
        known, rows, held, np.arange(3), OPTIONS, keys=KEYS[renamed], make_fitter=history.make_fitter
    )
    same(nets, 1, all_of_them, 7)
    same(nets, 2, all_of_them, 4)


def test_small_buckets_give_the_nets_of_large_ones(
    history: History8, all_of_them: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_fitter = history.make_fitter

    def one_by_one(data: TrainingData) -> BucketFitter:
        fitter = make_fitter(data)
        fitter.bucket_bytes = 1
        return fitter

    monkeypatch.setattr(history, "make_fitter", one_by_one)
    alone = history.fit(list(range(len(SIZES))))
    np.testing.assert_allclose(alone.outputs, all_of_them.outputs, atol=1e-6, rtol=0)


def test_another_seed_or_another_key_gives_another_net(history: History8, all_of_them: Weights) -> None:
    other = history.fit([0, 4], seed=1)
    assert np.abs(other.outputs[1] - all_of_them.outputs[4]).max() > 0.01
    start = InitialWeights.from_weights(all_of_them, history.known.codes)
    keys = KEYS + np.uint64(1)
    other = fit_autoencoders(
        history.known,
        history.rows,
        history.held,
        np.array([4]),
        OPTIONS,
        start=start,
        keys=keys,
        make_fitter=history.make_fitter,
    )
    assert np.abs(other.outputs[0] - all_of_them.outputs[4]).max() > 0.01


# --- what is learned --------------------------------------------------------------------------------------------------


def test_nets_learn_what_goes_together(history: History8, all_of_them: Weights) -> None:
    gains = [history.gain(all_of_them, fingerprint) for fingerprint in range(len(SIZES))]
    assert all(gain > 0.3 for gain in (gains[0], gains[3], gains[4], gains[7]))
    assert all(gain > -0.01 for gain in gains)  # rows held out were never made less likely


def test_a_net_that_does_not_improve_leaves_the_others_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History8(stacked_on_a_cpu)
    nets_by_epoch: list[int] = []
    epoch = loop.TrainingLoop.run_epoch

    def counted(run: loop.TrainingLoop) -> None:
        nets_by_epoch.append(len(run.positions))
        epoch(run)

    monkeypatch.setattr(loop.TrainingLoop, "run_epoch", counted)
    start = InitialWeights.from_weights(history.fit([0]), history.known.codes)
    nets_by_epoch.clear()
    monkeypatch.setattr(hyperparameters, "EARLY_STOPPING_PATIENCE", 1)
    hasty = history.fit([2, 3, 4, 5, 7], OPTIONS.model_copy(update={"max_epochs": 30}), start)
    hasty_epochs = sum(nets_by_epoch)
    nets_by_epoch.clear()
    monkeypatch.setattr(hyperparameters, "EARLY_STOPPING_PATIENCE", 30)
    patient = history.fit([2, 3, 4, 5, 7], OPTIONS.model_copy(update={"max_epochs": 30}), start)
    assert hasty_epochs < sum(nets_by_epoch) / 2 == 30 * 5 / 2
    assert history.gain(hasty, 4) > 0.3
    assert history.gain(patient, 4) > 0.3


def test_a_start_from_another_bank_is_further_than_a_fresh_one(history: History8) -> None:
    """The other bank knows the same values by other slots."""
    long_ago = history.fit([0], OPTIONS.model_copy(update={"max_epochs": 30}))
    slots = np.r_[0, np.random.default_rng(1).permutation(np.arange(1, SLOTS))]
    shuffled = Weights(
        long_ago.inputs[:, :, slots], long_ago.bias, long_ago.outputs[:, :, slots], long_ago.row
    )
    start = InitialWeights.from_weights(shuffled, history.known.codes[:, :, slots])
    short = OPTIONS.model_copy(update={"max_epochs": 1})
    assert history.gain(history.fit([0], short, start), 0) > history.gain(history.fit([0], short), 0) + 0.3


def test_nets_of_zeros_are_no_start(history: History8) -> None:
    """From a bank of counts alone no net ever learned, and the bank after it had nothing to start from, either."""
    of_counts_alone = history.fit([0], OPTIONS.model_copy(update={"max_epochs": 0}))
    start = InitialWeights.from_weights(of_counts_alone, history.known.codes)
    found, fresh = history.fit([0, 4], start=start), history.fit([0, 4])
    assert history.gain(found, 0) == history.gain(fresh, 0) > 0.3


def test_a_training_starts_from_the_bank_that_its_setting_names(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    pretrained = InitialWeights.from_bank(open_bank(organisation.bank))

    def distance(start: str | None) -> float:
        """How far the generic net of a day's training lies from the pretrained one."""
        own = SETTINGS.autoencoder.model_copy(update={"warm_start_bank": start, "max_epochs": 1})
        train_bank(
            organisation.days[:1],
            tmp_path / f"{start is None}",
            settings := with_nets(own),
            no_progress,
            allow_immature=True,
        )
        bank = open_bank(tmp_path / f"{start is None}", settings.bank)
        moved = remap_weights(
            pretrained.weights, pretrained.codes, bank.vocabulary.codes[:1], np.zeros(1, int)
        )
        return float(np.abs(moved.inputs[0].astype(float) - bank.weights.inputs[0]).mean())

    assert distance(str(organisation.bank)) < distance(None) / 2


def test_nets_start_where_they_are_fitted_as_they_are_moved_elsewhere(
    history: History8, all_of_them: Weights
) -> None:
    start = InitialWeights.from_weights(all_of_them, history.known.codes)
    codes, base = history.known.codes[1:, :, :6], history.known.base[1:, FREE_FEATURES, :6]
    nets = initial_networks(start.weights, start.codes[0], codes, base, torch.device("cpu"))
    moved = remap_weights(start.weights, start.codes, codes, np.zeros(len(codes), int))
    np.testing.assert_array_equal(nets.inputs.mT, moved.inputs)
    np.testing.assert_array_equal(nets.bias, moved.bias)
    np.testing.assert_array_equal(nets.outputs.mT, moved.outputs)
    np.testing.assert_array_equal(nets.base, base)


def with_nets(options: Autoencoder) -> Settings:
    return SETTINGS.model_copy(update={"autoencoder": options})


def test_a_start_of_another_size_is_one_sentence(
    history: History8, all_of_them: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = InitialWeights.from_weights(all_of_them, history.known.codes)
    monkeypatch.setattr(trainer, "HIDDEN_UNITS", 4)
    with pytest.raises(FingerprintError, match=r"8 hidden units, nets have 4"):
        history.fit([0], OPTIONS, start)


def test_who_has_no_rows_or_none_held_out_is_judged_by_the_counts(history: History8) -> None:
    held = SlotRows.from_fingerprints(history.owner[:0], history.held.slots[:0], len(SIZES))
    told: list[int] = []
    nets = fit_autoencoders(
        history.known,
        history.rows,
        held,
        np.array([0, 4]),
        OPTIONS,
        told.append,
        keys=KEYS,
        make_fitter=history.make_fitter,
    )
    assert not nets.outputs.any()
    assert sum(told) == 2


def test_weights_come_in_half_precision_and_never_past_its_range(
    history: History8, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyperparameters, "LEARNING_RATE", 1e6)
    nets = history.fit([0, 4])
    assert {nets.inputs.dtype, nets.bias.dtype, nets.outputs.dtype} == {np.dtype(np.float16)}
    assert np.isfinite(nets.inputs).all()
    assert np.isfinite(nets.outputs).all()


def test_progress_counts_every_net_once(history: History8) -> None:
    told: list[int] = []
    fit_autoencoders(
        history.known,
        history.rows,
        history.held,
        np.arange(len(SIZES)),
        OPTIONS,
        told.append,
        make_fitter=history.make_fitter,
    )
    assert sum(told) == len(SIZES)


def test_a_gpu_that_is_not_there_is_one_sentence() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(FingerprintError, match="set it to auto or cpu"):
        History8().fit([0], OPTIONS.model_copy(update={"device": "cuda"}))


def test_torch_is_asked_for_a_device_only_where_there_is_a_driver_or_a_gpu_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch cannot be imported here. To ask it takes two seconds; the driver answers at once."""
    monkeypatch.delitem(sys.modules, "fingerprint.training.nn.stacked")
    asked: list[str] = []

    class Hidden:
        def find_spec(self, name: str, *_: object) -> None:
            if name.endswith("nn.stacked"):
                asked.append(name)
                raise ModuleNotFoundError("hidden", name="torch")

    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    monkeypatch.delattr("fingerprint.training.nn.stacked")
    for setting, driver, asks in (("auto", False, 0), ("cpu", True, 0), ("auto", True, 1)):
        monkeypatch.setattr(cuda, "has_driver", lambda driver=driver: driver)
        fitter = select_fitter(History8().training_data(Autoencoder(device=setting)))
        assert isinstance(fitter, trainer.CompiledFitter)
        assert len(asked) == asks, (setting, driver)
    with pytest.raises(FingerprintError, match=r"needs torch: `pip install '\.\[train\]'`"):
        select_fitter(History8().training_data(Autoencoder(device="cuda")))


@pytest.mark.gpu
def test_a_gpu_fits_the_nets_of_a_cpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    history, short = History8(), OPTIONS.model_copy(update={"max_epochs": 2})
    there, here = (
        history.fit(list(range(len(SIZES))), short.model_copy(update={"device": device}))
        for device in ("cuda", "cpu")
    )
    again = history.fit(list(range(len(SIZES))), short.model_copy(update={"device": "cuda"}))
    np.testing.assert_array_equal(there.outputs, again.outputs)
    apart = np.abs(there.outputs.astype(np.float32) - here.outputs)
    assert (
        np.quantile(apart, 0.99) < 0.02
    )  # Adam makes a whole step of a gradient that is nothing but rounding
    assert abs(history.gain(there, 4) - history.gain(here, 4)) < 0.02


# --- compiled code against torch --------------------------------------------------------------------------------------


def test_compiled_code_fits_the_nets_of_torch() -> None:
    """To a hundredth of a weight that is about one; half precision keeps thousandths."""
    ready, long = list(range(len(SIZES))), OPTIONS.model_copy(update={"max_epochs": 12})
    mine, torchs = (History8(maker).fit(ready, long) for maker in (trainer.CompiledFitter, stacked_on_a_cpu))
    for name in ("inputs", "bias", "outputs"):
        np.testing.assert_allclose(
            getattr(mine, name).astype(np.float32), getattr(torchs, name), atol=0.01, rtol=0
        )
    assert np.abs(torchs.outputs).max() > 0.5


def test_compiled_losses_and_gradients_are_those_of_torch() -> None:
    nets, decay = random_nets(2), 0.01
    seen, wanted = torch.randint(0, 5, (2, 2, F, 4), generator=torch.Generator().manual_seed(1))
    losses, gradients = nets.losses(seen, wanted), nets.gradients(seen, wanted, decay)
    for net in range(2):
        mine = compiled.Networks(*(_units_last(part)[net] for part in nets.parameters))
        loss, (inputs, bias, outputs) = compiled.loss_and_gradients(
            mine,
            nets.base[net].numpy(),
            *(each[net].T.contiguous().numpy() for each in (seen, wanted)),
            decay,
        )
        assert loss == pytest.approx(float(losses[net]), rel=1e-5)
        for part, theirs in zip((inputs.swapaxes(1, 2), bias, outputs), gradients, strict=True):
            np.testing.assert_allclose(part, theirs[net], atol=1e-4)


def _units_last(part: torch.Tensor) -> NDArray[np.float32]:
    """Inputs (P, F, H, K) as (P, F, K, H), the other parameters as they are."""
    return part.mT.contiguous().numpy() if part.shape[1:2] == (F,) and part.dim() == 4 else part.numpy()


@pytest.mark.parametrize(("step", "rows", "swap"), [(0, 16, 0.15), (7, 512, 0.15), (100_000, 8, 0.9)])
def test_compiled_code_draws_the_rows_of_torch(step: int, rows: int, swap: float) -> None:
    theirs = drawn_from(300).sample(step, rows, swap)
    slots = np.arange(-10, 300, dtype=np.int16)[:, None].repeat(F, 1)
    histories = compiled.Histories(slots, np.array([10]), np.array([300]), np.array([5], np.uint64))
    for mine, their in zip(compiled.draw_rows(histories, 0, step, rows, swap), theirs, strict=True):
        np.testing.assert_array_equal(mine, their[0].T)
    np.testing.assert_array_equal(histories.evenly_spaced(32)[0], drawn_from(300).evenly_spaced(32)[0].T)


@pytest.mark.parametrize(
    ("wish", "threads"), [("1", 1), ("3,2", 3), ("0", 1), ("", None), ("many", None), ("-2", None)]
)
def test_threads_are_as_many_as_the_environment_allows(
    wish: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", wish)
    assert trainer.cpu_threads() == (threads or len(os.sched_getaffinity(0)))


# --- the stacked program ----------------------------------------------------------------------------------------------


def random_nets(nets: int, hidden: int = 3, slots: int = 5) -> StackedNetworks:
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(0))

    return StackedNetworks(
        random(nets, F, hidden, slots),
        random(nets, hidden),
        random(nets, G, hidden, slots),
        random(nets, G, slots),
    )


def plain_loss(nets: StackedNetworks, seen: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """One net, row and feature after the other, as the docstring of `autoencoder` says it: -> (P,)."""
    losses = []
    for net in range(len(seen)):
        total = torch.zeros(())
        for row in range(seen.shape[2]):
            shown = [nets.inputs[net, feature, :, seen[net, feature, row]] for feature in range(F)]
            for place, feature in enumerate(FREE_FEATURES):
                visible = sum(each for at, each in enumerate(shown) if VISIBLE_MASK[place, at])
                hidden = torch.tanh(visible + nets.bias[net])
                logits = hidden @ nets.outputs[net, place] + nets.base[net, place]
                total = total - torch.log_softmax(logits, 0)[wanted[net, feature, row]]
        losses.append(total / seen.shape[2])
    return torch.stack(losses)


def test_losses_and_gradients_of_many_nets_agree_with_autograd_on_one_at_a_time() -> None:
    nets, decay = random_nets(2), 0.01
    seen, wanted = torch.randint(0, 5, (2, 2, F, 4), generator=torch.Generator().manual_seed(1))
    for part in nets.parameters:
        part.requires_grad_()
    plain = plain_loss(nets, seen, wanted)
    penalty = decay * sum((part**2).sum() for part in nets.parameters[::2])
    wished = torch.autograd.grad(plain.sum() + penalty, nets.parameters)
    with torch.no_grad():
        np.testing.assert_allclose(nets.losses(seen, wanted), plain, rtol=1e-5)
        for mine, theirs in zip(nets.gradients(seen, wanted, decay), wished, strict=True):
            np.testing.assert_allclose(mine / 4, theirs, atol=1e-5)  # ours are summed over four rows


def test_a_step_is_a_step_of_torchs_own_adam() -> None:
    nets, reference = random_nets(2), random_nets(2)
    mine, theirs = Adam(nets.parameters, 0.02), torch.optim.Adam(reference.parameters, 0.02)
    for number in range(3):
        gradients = random_nets(2 + number).take(torch.tensor([number, 0])).parameters
        mine.step(nets.parameters, gradients)
        for part, gradient in zip(reference.parameters, gradients, strict=True):
            part.grad = gradient
        theirs.step()
    np.testing.assert_allclose(
        nets.outputs, reference.outputs, atol=1e-4
    )  # of 0.06: our epsilon is a little larger


# --- what is drawn ----------------------------------------------------------------------------------------------------


def drawn_from(rows: int, key: int = 5) -> TrainingRows:
    """One fingerprint, whose row n has n in every slot, behind ten rows of someone else's."""
    slots = torch.arange(-10, rows, dtype=torch.int16)[:, None].repeat(1, F)
    return TrainingRows(slots, torch.tensor([10]), torch.tensor([rows]), torch.tensor([key]))


def test_the_numbers_are_those_that_splitmix64_is_known_by() -> None:
    """The first three of the stream 1234567, as published with the reference implementation."""
    state = torch.tensor([1234567]) + torch.arange(1, 4) * -0x61C8864680B583EB
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [int(each) % (1 << 64) for each in splitmix(state)] == known


def test_rows_are_drawn_evenly_and_from_no_one_elses() -> None:
    _, wanted = drawn_from(10).sample(0, 50_000, 0.0)
    counts = np.bincount(wanted[0, 0].numpy(), minlength=10)
    assert len(counts) == 10
    assert abs(counts / 5000 - 1).max() < 0.06


def test_inputs_are_spoiled_as_often_as_said_and_one_by_one() -> None:
    seen, wanted = drawn_from(30_000).sample(3, 20_000, 0.15)
    spoiled = (seen != wanted).double()
    np.testing.assert_allclose(spoiled.mean((0, 2)), 0.15 + BLANK_SHARE, atol=0.01)
    assert abs(float(torch.corrcoef(spoiled[0])[0, 1:].abs().max())) < 0.03


def test_what_is_drawn_depends_on_key_and_step() -> None:
    first = drawn_from(100).sample(0, 64, 0.15)[1]
    assert (first == drawn_from(100).sample(0, 64, 0.15)[1]).all()
    assert (first != drawn_from(100).sample(1, 64, 0.15)[1]).any()
    assert (first != drawn_from(100, key=6).sample(0, 64, 0.15)[1]).any()


def test_rows_that_check_an_epoch_are_spread_over_what_is_held_out() -> None:
    assert drawn_from(64).evenly_spaced(32)[0, 0].tolist() == list(range(0, 64, 2))
    assert set(drawn_from(5).evenly_spaced(32)[0, 0].tolist()) == set(range(5))


# --- who is fitted together -------------------------------------------------------------------------------------------


def test_everybody_is_in_one_bucket_and_none_is_larger_than_asked_for() -> None:
    random = np.random.default_rng(0)
    histories, used = random.integers(1, 3000, 500), random.integers(1, 25, 500)
    found = list(make_buckets(np.arange(500), histories, used, 24, 8, 1 << 22))
    assert sorted(np.concatenate([each.members for each in found]).tolist()) == list(range(500))
    for each in found:
        assert len(each.members) * network_bytes(each.rows, each.slots, 8) <= 1 << 22
        assert (used[each.members] <= each.slots).all()
        assert (rows_per_step(histories[each.members]) == each.rows).all()


def test_slots_are_rounded_up_and_never_past_the_cap() -> None:
    used = np.array([1, 4, 5, 6, 7, 12, 13, 17, 24, 25, 33, 256])
    assert fitted_slots(used, 24).tolist() == [3, 4, 6, 6, 8, 12, 16, 24, 24, 24, 24, 24]
    assert fitted_slots(used, 256).tolist() == [3, 4, 6, 6, 8, 12, 16, 24, 24, 32, 48, 256]


def test_short_histories_draw_few_rows_and_what_all_start_from_draws_many() -> None:
    assert rows_per_step(np.array([1, 9, 40, 1024, 4096, 20_000, 10**6])).tolist() == [
        8,
        16,
        16,
        16,
        64,
        512,
        512,
    ]


def test_nets_of_the_largest_size_are_fitted_one_by_one() -> None:
    found = list(make_buckets(np.arange(3), np.full(3, 500), np.full(3, 256), 256, 128, 32 << 20))
    assert [len(each.members) for each in found] == [1, 1, 1]
