"""Kafka through kafka-python or confluent-kafka: consumers, producers and the administration of topics."""
