"""Ports: what programs need of the outside, as protocols. Each file defines the terms of one of them once.

`fingerprint/adapters` and `fingerprint/store` implement them; where a setting decides, `pipelines/runtime/wiring.py` chooses.
Every implementation passes the same contract tests as its in-memory fake (tests/contracts).
"""
