"""The rule that keeps services, processes, training and the like out of `make test-fast` finds what a test hides."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import train
from tests.support import sample_organisation
from tests.support.services.kafka import Broker
from tests.support.slow_tests import is_slow, leads_to_slow


class Machine:
    """It starts a process in one of its methods."""

    def start(self) -> None:
        subprocess.run(["true"], check=True)  # noqa: S607

    def describe(self) -> str:
        return "a machine"


@contextmanager
def _running() -> Iterator[Machine]:
    machine = Machine()
    machine.start()
    yield machine


def _itself() -> None:
    subprocess.run(["true"], check=True)  # noqa: S607


def _through_a_helper() -> None:
    with _running():
        pass


def _through_a_method() -> None:
    Machine().start()


def _within_a_function_it_makes() -> Callable[[], None]:
    return lambda: Machine().start()


def _by_an_import() -> None:
    import torch.nn

    torch.nn.Linear(1, 1)


def _by_a_module() -> object:
    return sample_organisation.build


def _by_training() -> object:
    return train.train_bank


def _by_a_service() -> object:
    return Broker.started


@functools.cache
def _behind_a_cache() -> None:
    Machine().start()


@given(st.integers())
def _behind_hypothesis(_: int) -> None:
    Machine().start()


def _no_method_of_it_that_is_slow() -> None:
    Machine().describe()


def _nothing_of_it() -> None:
    functools.partial(print)


# In a list: what a test names would count for the test itself.
EXAMPLES = {
    True: [
        _itself,
        _through_a_helper,
        _through_a_method,
        _within_a_function_it_makes,
        _by_an_import,
        _by_a_module,
        _by_training,
        _by_a_service,
        _behind_a_cache,
        _behind_hypothesis,
    ],
    False: [_no_method_of_it_that_is_slow, _nothing_of_it],
}


@pytest.mark.parametrize(
    ("slow", "example"),
    [(slow, example) for slow, examples in EXAMPLES.items() for example in examples],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_test_is_slow_if_its_code_leads_to_a_service_a_process_or_a_training(
    slow: bool, example: Any
) -> None:
    assert leads_to_slow([example]) is slow


@pytest.mark.parametrize("service", ["broker", "postgresql_server", "triton", "organisation"])
def test_a_test_that_asks_for_a_service_is_slow(request: pytest.FixtureRequest, service: str) -> None:
    (fixture, *_) = request.session._fixturemanager.getfixturedefs(service, request.node) or ()
    assert leads_to_slow([fixture.func])


def _by_name(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("postgresql")


def test_a_fixture_asked_for_by_its_name_is_followed_to_those_that_it_asks_for(
    request: pytest.FixtureRequest,
) -> None:
    asking = pytest.Function.from_parent(request.node.parent, name="asking", callobj=_by_name)
    assert is_slow(asking)


@given(st.integers())
def _drawn(_: int) -> None:
    """It would draw a hundred."""


def test_a_test_that_draws_its_cases_is_slow(request: pytest.FixtureRequest) -> None:
    assert is_slow(pytest.Function.from_parent(request.node.parent, name="drawn", callobj=_drawn))


def test_this_test_is_not_slow(request: pytest.FixtureRequest) -> None:
    assert not is_slow(request.node)
    assert not request.node.get_closest_marker("slow")
