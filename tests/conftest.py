"""What several test modules share: one small organisation, learned and scored once."""

from __future__ import annotations

import pytest
import road


@pytest.fixture(scope="session")
def organisation(tmp_path_factory: pytest.TempPathFactory) -> road.Road:
    """Twelve principals over twelve days with three attack sessions; a bank that learned the first nine days."""
    return road.build(tmp_path_factory.mktemp("organisation"))


@pytest.fixture(scope="session")
def scored(organisation: road.Road, tmp_path_factory: pytest.TempPathFactory) -> road.Run:
    """The last three days scored once, in the default way."""
    return road.run(organisation.new, organisation.bank, tmp_path_factory.mktemp("scored"))
