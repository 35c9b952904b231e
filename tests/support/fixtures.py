"""What several test modules share: one small organisation, learned and scored once; the services.

A plugin of the processes that run tests (`tests/conftest.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import cache

import pytest
import typer.main

from fingerprint import store
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import open_bank
from fingerprint.store import migrate, open_store
from tests.support import sample_organisation
from tests.support.compiled_once import share_compiled_statements
from tests.support.migrated_once import MigratedOnce, PreparedOnce
from tests.support.one_broker import ROOT, wants_broker
from tests.support.reused_stores import ReusedStores
from tests.support.services import kafka, postgres
from tests.support.services.requirement import needed
from tests.support.services.triton import Triton
from tests.support.stepwise_pipeline import Outcome, Step, pipeline_of, steps_of, walked
from tests.support.stream_environment import Place, Records, Said, keyed


@pytest.fixture(scope="session", autouse=True)
def _tables_and_statements_are_made_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "upgrade_schema", MigratedOnce())
        patch.setattr(store, "prepare_schema", PreparedOnce())
        share_compiled_statements(patch)
        # Every run of the command line in the process would build all of its commands again.
        patch.setattr(typer.main, "get_command_from_info", cache(typer.main.get_command_from_info))
        yield


@pytest.fixture(scope="session", autouse=True)
def _common_kernels_are_compiled() -> None:
    """A drawn case has a fifth of a second, which the first call of a checkout exceeds."""
    from tests.support import compiled_kernels  # noqa: F401


@pytest.fixture(scope="session")
def organisation(tmp_path_factory: pytest.TempPathFactory) -> sample_organisation.SampleOrganisation:
    """Twelve principals over twelve days with three attack sessions; a bank that learned the first nine days."""
    own = tmp_path_factory.mktemp("organisation")
    run = own.parents[1] if os.environ.get("PYTEST_XDIST_WORKER") else own.parent  # of all processes
    return sample_organisation.build_once(run / "organisation-of-all", own / "copy")


@pytest.fixture(scope="session")
def bank(organisation: sample_organisation.SampleOrganisation) -> Bank:
    """That bank, open."""
    return open_bank(organisation.bank)


@pytest.fixture(scope="session")
def steps(organisation: sample_organisation.SampleOrganisation) -> list[Step]:
    """The last three days, in steps, some of it late."""
    return steps_of(organisation)


@pytest.fixture(scope="session")
def undisturbed(bank: Bank, steps: list[Step]) -> Outcome:
    """What a scorer state that is left alone says of those steps."""
    return walked(pipeline_of(bank, bank.scorer_state), steps)


@pytest.fixture(scope="session")
def scored(
    organisation: sample_organisation.SampleOrganisation, tmp_path_factory: pytest.TempPathFactory
) -> sample_organisation.Run:
    """The last three days scored once, in the default way."""
    return sample_organisation.run(organisation.new, organisation.bank, tmp_path_factory.mktemp("scored"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    """A real Kafka broker, started when the first test wants it."""
    with needed(), kafka.Broker.started(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the broker after the last of its tests, which come first: at rest it takes a second of CPU a minute.

    A later test that wants it starts another.
    """
    if _wants_broker(item) and not _wants_broker(nextitem):
        for each in item.session._fixturemanager.getfixturedefs("broker", item) or ():
            each.finish(item._request)  # type: ignore[attr-defined]


def _wants_broker(item: pytest.Item | None) -> bool:
    return item is not None and wants_broker(str(item.path.relative_to(ROOT)))


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgres.Postgres]:
    """A real PostgreSQL server, started when the first test wants it; its fresh databases have the tables of a store."""
    with needed(), postgres.Postgres.started() as running:
        made = running.empty()
        open_store(made).close()
        running.keep_tables_of(made)
        yield running


@pytest.fixture(scope="module")
def postgresql(postgresql_server: postgres.Postgres) -> Iterator[postgres.Postgres]:
    """That server, for a file of tests: their databases end with it."""
    yield postgresql_server
    postgresql_server.drop_copies()


@pytest.fixture(scope="module")
def postgresql_stores(postgresql: postgres.Postgres) -> Iterator[ReusedStores]:
    """Stores on that server, which the tests of a file use one after the other."""
    with closing(ReusedStores(postgresql)) as stores:
        yield stores


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A real Triton server with an empty repository, started when the first test wants it."""
    with needed(), Triton.started(tmp_path_factory.mktemp("triton")) as running:
        yield running


@pytest.fixture(scope="session")
def records(organisation: sample_organisation.SampleOrganisation) -> Records:
    """The new records of the organisation, keyed, in the order of delivery."""
    return keyed(sample_organisation.lines_of(organisation.new))


@pytest.fixture(scope="session")
def oracle(
    organisation: sample_organisation.SampleOrganisation,
    records: Records,
    tmp_path_factory: pytest.TempPathFactory,
) -> Said:
    """What an undisturbed run says."""
    place = Place(tmp_path_factory.mktemp("oracle"), organisation.bank).create()
    place.send(records)
    place.run()
    return place.said()
