"""An event is explained as it was judged, whether or not it is part of an alert."""

from __future__ import annotations

import pandas as pd
import pytest

from fingerprint.core.errors import FingerprintError
from pipelines.cli.console import no_progress
from pipelines.explain import explain_sources, print_explanations
from tests.support.sample_organisation import SETTINGS, Run, SampleOrganisation


@pytest.fixture(scope="module")
def asked(scored: Run) -> pd.DataFrame:
    """The strangest event of each reason for which there is no alert, and of those in one."""
    events = scored.events.drop_duplicates("event_id").fillna({"reason": ""})
    return events.sort_values("autoencoder_z").groupby("reason").tail(1).set_index("event_id")


def test_each_event_is_judged_as_it_was_and_says_what_surprised(
    organisation: SampleOrganisation, asked: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    explained = explain_sources(
        organisation.new, [*asked.index], organisation.bank, SETTINGS, no_progress, "none"
    )
    assert {"", "below the alert threshold", "no vote"} <= set(asked["reason"])
    assert {each["event_id"] for each in explained} == set(asked.index)
    for each in explained:
        judged = asked.loc[each["event_id"]]
        assert (each["verdict"], each["reason"] or "") == (judged["verdict"], judged["reason"])
        assert each["principal"] == judged["principal"]
        for name, said in each["detectors"].items():
            assert said["vote"] == judged[f"{name}_vote"]
            assert said["z"] == pytest.approx(judged[f"{name}_z"], abs=0.01)
    print_explanations(explained)
    printed = capsys.readouterr().out
    (alerting,) = (each for each in explained if each["verdict"])
    assert alerting["drivers"][0]["seen"]
    assert "no alert: below the alert threshold" in printed
    assert f"surprise {alerting['drivers'][0]['surprise']}; usual here: " in printed


def test_an_event_that_is_not_in_the_input_is_named(
    organisation: SampleOrganisation, asked: pd.DataFrame
) -> None:
    with pytest.raises(FingerprintError, match=r"there is no event a, b, c and 1 more in the input"):
        explain_sources(organisation.new[:1], [*"dcba"], organisation.bank, SETTINGS, no_progress, "none")
