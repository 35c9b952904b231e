"""Adapters: implementations of `core.ports` by files, brokers and services. No adapter imports another."""
