"""The `fingerprint` command line: one module for each group of commands; `app` puts them together, `run` reports errors.

A command reads its options, loads the settings, calls one function of `pipelines` and prints its result. It imports its modules
when it runs, so that `--help` and `--version` stay fast.
"""

from __future__ import annotations


def program() -> None:
    """Run the command line as a process of its own, which ends without the teardown of the interpreter."""
    from pipelines.cli.run import exit_without_teardown

    with exit_without_teardown():
        main()


def main() -> None:
    """Run the command line and exit with its status (docs/reference/exit-codes.md)."""
    from pipelines.cli.run import run

    run()
