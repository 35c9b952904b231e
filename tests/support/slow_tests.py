"""The rule by which a test is `slow`: it uses a service, starts a process, waits for others, simulates, trains, draws its cases
or measures what they cost. `make test-fast` leaves it out.

No list of tests is kept. What a test names is followed through its fixtures and through the helpers in `tests` that they call; it
is slow if that leads to one of SLOW. So a new test lands in the right set by itself. The rule errs towards slow: a method counts
as called where its class and its name both occur.

Example:
    >>> is_slow(item)        # of a test that asks for the fixture `broker`
    True
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

SLOW = frozenset(
    {
        "ast",  # every module of the code is read
        "subprocess",  # Kafka, PostgreSQL, Triton, Prometheus, Helm, `fingerprint` as a program
        "multiprocessing",
        "nbclient",
        "distributed",
        "fake_cudf",  # a GPU that is simulated value by value
        "fake_cupy",
        "moto",
        "playwright",
        "socket",  # who does not answer is waited for
        "threading",  # and so are others who do the same at once
        "torch",
        "tracemalloc",  # every allocation is noted
        "fingerprint.adapters.worker_pool",
        "fingerprint.evaluation.dfencoder_peer",
        "fingerprint.evaluation.peers",
        "fingerprint.sources.cloudtrail.operations.load_operations",  # every operation of AWS is read
        "fingerprint.training.nn.trainer.fit_autoencoders",
        "pipelines.bench",
        "pipelines.evaluation",
        "pipelines.runtime.wiring.open_worker_pool",
        "pipelines.simulate.simulate_organisation",
        "pipelines.simulate_live",
        "pipelines.train.train_bank",
        "tests.support.compiled_kernels",  # for GPUs
        "tests.support.cpu_time",  # of the longest text that an attacker may write
        "tests.support.forked",
        "tests.support.http_receiver",  # servers, and those who wait for them
        "tests.support.services",
        "tests.support.simulated_activity",
        "tests.support.web_server.served",
    }
)


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test draws its cases, or it, one of its fixtures or a helper of theirs leads to one of SLOW."""
    if not isinstance(item, pytest.Function):
        return False
    if hasattr(item.obj, "hypothesis"):  # a hundred cases, where others have one
        return True
    fixtures = {name: each[-1].func for name, each in item._fixtureinfo.name2fixturedefs.items()}
    for asking in (item.obj, *fixtures.values()):  # a fixture that is asked for by its name, in a text
        if "getfixturevalue" in _names(_plain(asking)):
            fixtures |= _fixtures_named(item, _plain(asking).__code__.co_consts)
    return leads_to_slow([item.obj, *fixtures.values()], item.cls)


def _fixtures_named(item: pytest.Item, texts: Iterable[object]) -> dict[str, Any]:
    """Return the fixtures of these names, and those that they ask for."""
    found: dict[str, Any] = {}
    names = [text for text in texts if isinstance(text, str)]
    while names:
        name = names.pop()
        if name not in found and (known := _fixtures_of(item, name)):
            found[name] = known[-1].func
            names += known[-1].argnames
    return found


def _fixtures_of(item: pytest.Item, name: str) -> Sequence[pytest.FixtureDef[Any]]:
    return item.session._fixturemanager.getfixturedefs(name, item) or ()


def leads_to_slow(roots: Iterable[Any], owner: type | None = None) -> bool:
    """Return whether functions, of tests or fixtures, lead to one of SLOW; `owner` is the class whose methods they are."""
    return _search(frozenset(_plain(each) for each in roots), owner)


@cache
def _search(roots: frozenset[Any], owner: type | None) -> bool:
    """Follow names from `roots` until nothing new is found."""
    found: set[Any] = set()
    scopes: list[
        Mapping[str, Sequence[Any]]
    ] = []  # of the classes and modules found: what their names stand for
    names = {"__init__", "__post_init__", "__enter__"}
    new = {*roots, *([owner] if owner else [])}
    while new:
        if any(_is_slow(each) for each in new):
            return True
        found |= new
        followed = [each for each in new if _is_followed(each)]
        functions = [each for each in new if isinstance(each, FunctionType)]
        scopes += [_scope(each) for each in followed if not isinstance(each, FunctionType)]
        names.update(*map(_names, functions))
        new = {target for each in functions if _is_followed(each) for target in _named_in(each)}
        new |= {target for scope in scopes for name in scope.keys() & names for target in scope[name]}
        new -= found
    return False


@cache
def _named_in(function: FunctionType) -> Sequence[Any]:
    """Return what a function's names stand for, in the module where it was written."""
    return [
        target for name in _names(function) if _is_target(target := _plain(function.__globals__.get(name)))
    ]


@cache
def _scope(source: type | ModuleType) -> Mapping[str, Sequence[Any]]:
    """Return what the names of a class, its bases or a module stand for."""
    scope: dict[str, list[Any]] = {}
    for each in source.__mro__ if isinstance(source, type) else [source]:
        for name, value in vars(each).items():
            if _is_target(target := _plain(value)):
                scope.setdefault(name, []).append(target)
    return scope


def _is_target(thing: Any) -> bool:
    return isinstance(thing, FunctionType | type | ModuleType)


@cache
def _names(function: FunctionType) -> frozenset[str]:
    """Return the names that a function's code uses, also within the functions it makes."""
    return frozenset(_names_of_code(function.__code__))


def _names_of_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of_code(constant)


def _plain(thing: Any) -> Any:
    """Return the function under decorators, Hypothesis and method binding."""
    thing = getattr(getattr(thing, "hypothesis", None), "inner_test", thing)
    if isinstance(thing, property):
        thing = thing.fget
    if isinstance(thing, staticmethod | classmethod):
        thing = thing.__func__
    thing = inspect.unwrap(thing) if callable(thing) else thing
    return getattr(thing, "__func__", thing)


def _full_name(thing: Any) -> str:
    return str(
        thing.__name__ if isinstance(thing, ModuleType) else f"{thing.__module__}.{thing.__qualname__}"
    )


@cache
def _is_followed(thing: Any) -> bool:
    """Return whether it is of the tests, or a module that has one of SLOW in it."""
    name = f"{_full_name(thing)}."
    return name.startswith("tests.") or any(each.startswith(name) for each in SLOW)


@cache
def _is_slow(thing: Any) -> bool:
    """Return whether it is one of SLOW, or a function that names one."""
    names = _names(thing) if isinstance(thing, FunctionType) else frozenset()
    return any(map(_is_slow_name, (_full_name(thing), *names)))


@cache
def _is_slow_name(name: str) -> bool:
    return any(f"{name}.".startswith(f"{each}.") for each in SLOW)
