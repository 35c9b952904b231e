"""How the tests are collected, ordered and marked; their shared fixtures are in `tests/support/fixtures.py`."""

from __future__ import annotations

import atexit
import gc
import logging
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.one_broker import ROOT, OneBrokerScheduling, wants_broker
from tests.support.slow_tests import is_slow

SYSTEM = Path(__file__).parent / "system"
hypothesis.settings.register_profile("no deadline", deadline=None)  # a machine may be busy
hypothesis.settings.load_profile("no deadline")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """What a test captured may hold half a surrogate pair, which the process that ran it could not send on."""
    return _sendable((yield))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Of the tests of a whole run, those that want a broker share one."""
    return OneBrokerScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the fixtures, except where xdist only hands out tests: all packages would be imported there for nothing."""
    if not session.config.pluginmanager.has_plugin("dsession"):
        session.config.pluginmanager.import_plugin("tests.support.fixtures")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: what is imported stays, and it would be gone through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each process of xdist begin with other files: what one has compiled, the others find compiled."""
    report = yield
    process = getattr(collector.config, "workerinput", None)
    if process and isinstance(collector, pytest.Directory):
        first = len(report.result) * int(process["workerid"].removeprefix("gw")) // process["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow; order the files so that the long ones begin first, and none is left for the end.

    Those that share the broker are the longest piece of work of one process; others with services come next.
    """
    answers: dict[tuple[object, str], bool] = {}
    for item in items:
        function = (item.parent, getattr(item, "originalname", item.name))  # with any of its parameters
        if function not in answers:
            answers[function] = is_slow(item)
        if answers[function]:
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: (
            not wants_broker(str(item.path.relative_to(ROOT))),
            SYSTEM not in item.path.parents,
            item.path not in slow,
            item.path,
        )
    )


def pytest_collection_finish() -> None:
    """Take modules and thousands of tests out of what the collector goes through again and again: a sixth of the CPU.

    They come back as the process ends: DuckDB reports whatever is left of it as leaked.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.unfreeze)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Take the log handlers of a program that a test ran away with the test.

    Their stream is what pytest captured, which is closed by then: each record of a later test would be an error with a traceback.
    """
    loggers = [logging.getLogger(name) for name in ("", "fingerprint")]
    before = [(logger, logger.handlers[:], logger.level) for logger in loggers]
    try:
        return (yield)
    finally:
        for logger, handlers, level in before:
            logger.handlers[:] = handlers
            if logger.level != level:
                logger.setLevel(level)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What needs a CUDA device is left out where there is none; where there is one, its libraries have to be there, too."""
    if item.get_closest_marker("gpu") and not has_device():
        pytest.skip("needs a CUDA device")


@cache
def has_device() -> bool:
    from fingerprint.compute.cuda import has_driver

    if not has_driver():
        return False
    import torch

    from fingerprint.compute.backend import choose_backend

    return torch.cuda.is_available() or choose_backend().device == "cuda"


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list | tuple):
        return type(value)(map(_sendable, value))
    return {key: _sendable(each) for key, each in value.items()} if isinstance(value, dict) else value
