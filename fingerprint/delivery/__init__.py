"""Alerts -> other systems: the delivery policy, the ports of outbox and receivers, and the formats."""
