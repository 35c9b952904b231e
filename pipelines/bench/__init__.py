"""Benchmarks of this repository, run from a checkout; they are not part of a release.

run            `make bench`: the table of rows, each a ratio measured in one run. Start here
report         the definition of a row, and the table
organisations  simulated organisations, banks that learned them, and copies of them in other accounts
reading        rows of the reader: bytes to events
steps          rows of the cost of one step and of one event
stream         rows of `fingerprint stream` on a real broker (`broker`)
in_memory      rows of `fingerprint stream` without a client, on a broker in memory
queue, triton  rows of the alert queue, and of inference through Triton
dfencoder      rows against the published autoencoder (`dfencoder_tables`)
soak           `make bench-long`: memory of a stream over a week, a million records streamed, then a large training
training       a hundred thousand fingerprints trained (a program)
fitting        the fitting of networks alone (a program)
gpu            `make bench-gpu`: CPU against GPU (`gpu_pipeline`, `gpu_estimators`, `gpu_report`)
"""
