"""What every adapter to the topics of a stream does, whichever client or fake it is.

A test class gives `topics`, opened, and `name`, which makes names that no one uses.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.topics import TopicAdmin, TopicSpec

Name = Callable[[], str]


class TopicsContract:
    def test_a_topic_is_there_once_it_was_made_and_not_before(self, topics: TopicAdmin, name: Name) -> None:
        one, other = name(), name()
        assert topics.describe([one, other]) == {}
        assert topics.create(TopicSpec(one, 2))
        found = topics.describe([one, other])
        assert {each: topic.partitions for each, topic in found.items()} == {one: 2}

    def test_a_topic_that_is_there_stays_as_it_is(self, topics: TopicAdmin, name: Name) -> None:
        topic = name()
        topics.create(TopicSpec(topic, 2))
        assert not topics.create(TopicSpec(topic, 8))
        assert topics.describe([topic])[topic].partitions == 2

    def test_a_topic_grows_and_never_shrinks(self, topics: TopicAdmin, name: Name) -> None:
        topic = name()
        topics.create(TopicSpec(topic, 2))
        topics.add_partitions(topic, 4)
        assert topics.describe([topic])[topic].partitions == 4
        for fewer in (4, 1):
            with pytest.raises(FingerprintError, match="partition"):
                topics.add_partitions(topic, fewer)
        assert topics.describe([topic])[topic].partitions == 4

    def test_a_topic_that_is_not_there_does_not_grow(self, topics: TopicAdmin, name: Name) -> None:
        topic = name()
        with pytest.raises(FingerprintError):
            topics.add_partitions(topic, 4)
        assert topics.describe([topic]) == {}

    @pytest.mark.parametrize("wrong", ["a topic", "", "x" * 300, "../x"])
    def test_a_name_that_kafka_would_not_take_is_refused(self, topics: TopicAdmin, wrong: str) -> None:
        with pytest.raises(FingerprintError) as caught:
            topics.create(TopicSpec(wrong, 1))
        assert "\n" not in str(caught.value)

    def test_closing_twice_does_nothing(self, topics: TopicAdmin) -> None:
        topics.close()
        topics.close()


class BrokerContract:
    """What only a server has: replicas, and how long and how much a topic holds."""

    def test_a_topic_holds_what_it_was_made_to_hold(self, topics: TopicAdmin, name: Name) -> None:
        wanted = TopicSpec(name(), 1, 1, 3_024_000_000, 5_000_000, "LogAppendTime")
        topics.create(wanted)
        assert topics.describe([wanted.name]) == {wanted.name: wanted}

    def test_what_is_not_said_is_as_the_broker_does_it(self, topics: TopicAdmin, name: Name) -> None:
        topic = name()
        topics.create(TopicSpec(topic, 1))
        week, broker_bytes = 7 * 24 * 3600 * 1000, 16 << 20
        assert topics.describe([topic])[topic] == TopicSpec(topic, 1, 1, week, broker_bytes, "CreateTime")

    def test_more_replicas_than_brokers_are_refused(self, topics: TopicAdmin, name: Name) -> None:
        with pytest.raises(FingerprintError, match=r"[Rr]eplication"):
            topics.create(TopicSpec(name(), 1, replicas=3))
