"""The bank on a Triton server: add a version to the model repository, and load it beside the previous one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fingerprint.adapters.triton.repository import ModelRepository
from fingerprint.core.errors import FingerprintError, ServerUnavailable
from fingerprint.core.extras import how_to_install
from fingerprint.core.settings import Bank, Triton
from fingerprint.detection import triton_model
from fingerprint.registry.bank_files import DEFAULT_OPTIONS

if TYPE_CHECKING:
    from fingerprint.adapters.triton.client import ModelControl

SERVED_VERSIONS = 2  # at a time: a stream that uses the previous version needs it until it swaps its bank


def load_into_server(bank: Path, options: Triton, bank_options: Bank = DEFAULT_OPTIONS) -> dict[str, Any]:
    """Load the served bank into Triton, and return the figures of `triton load --json`.

    Without a server only the repository is filled. `bank_options` name the keys that must have signed the bank. If the new
    version cannot be served, the earlier versions stay served, and FingerprintError says why.
    """
    repository = ModelRepository(Path(options.model_repository), options.instance_count)
    number, before = repository.add_version(bank, bank_options), repository.served_versions()
    both = [*(each for each in before if each != number), number][-SERVED_VERSIONS:]
    with ExitStack() as connection:
        try:
            control = connection.enter_context(_model_control(options)) if options.url is not None else None
            _serve(repository, control, both)
        except FingerprintError:
            repository.set_served_versions(before)
            repository.remove_unserved()
            raise
        repository.remove_unserved()
        # on the same connection, because a load balancer opens no new one to a server that was not ready just before
        states = control.version_states() if control else {}
    return _status(options, states) | {"loaded": repository.bank_versions()[number]}


def _serve(repository: ModelRepository, control: ModelControl | None, numbers: Sequence[int]) -> None:
    """Serve versions, the newest last; serve the newest alone if the server refuses them together.

    A version that was served may not be loadable any more (after an upgrade, without its key), and must not block the next one.
    """
    repository.set_served_versions(numbers)
    try:
        if control:
            control.load_model()
    except ServerUnavailable:
        raise
    except FingerprintError:
        if len(numbers) == 1:
            raise
        _serve(repository, control, numbers[-1:])


def server_has_version(version: str, options: Triton) -> bool:
    """Return whether the server serves a version that is the newest of the repository."""
    newest = ModelRepository(Path(options.model_repository)).served_versions()[-1:]
    return newest == [triton_model.version_number(version)] and _is_served(version, options)


def server_status(options: Triton) -> dict[str, Any]:
    """Return the versions in the repository, newest last, with their state at the server."""
    if options.url is None:
        return _status(options, {})
    with _model_control(options) as control:
        return _status(options, control.version_states())


def _status(options: Triton, states: Mapping[int, str]) -> dict[str, Any]:
    repository = ModelRepository(Path(options.model_repository))
    names, served = repository.bank_versions(), repository.served_versions()
    known = [*served, *sorted((set(names) | set(states)) - set(served))]
    return {
        "repository": options.model_repository,
        "url": options.url,
        "versions": [
            {
                "number": number,
                "bank_version": names.get(number),
                "served": number in served,
                "state": states.get(number),
            }
            for number in known
        ],
    }


def print_server_status(figures: dict[str, Any]) -> None:
    """Print the status of the server."""
    if "loaded" in figures:
        print(f"bank {figures['loaded']} is in {figures['repository']}")
    if figures["url"] is None:
        print("no server is asked: name one with the setting triton.url")
    for each in figures["versions"]:
        name = each["bank_version"] or "not in the repository"
        state = each["state"] or ("to be served" if each["served"] else "not served")
        print(f"{each['number']:>16}  {state.lower():<12}  {name}")
    if not figures["versions"]:
        print("nothing is served: `fingerprint triton load --bank bank`")


def _is_served(version: str, options: Triton) -> bool:
    from fingerprint.adapters.triton.client import is_version_served

    return is_version_served(version, options)


@contextmanager
def _model_control(options: Triton) -> Iterator[ModelControl]:
    try:
        from fingerprint.adapters.triton.client import ModelControl
    except ImportError as error:
        raise FingerprintError(
            f"triton.url needs a package that is not there ({error.name}): {how_to_install('triton')}"
        ) from None
    with closing(ModelControl(options)) as control:
        yield control
