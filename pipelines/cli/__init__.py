"""The `fingerprint` command line: one module for each group of commands; `app` puts them together, `run` reports errors.

A command reads its options, loads the settings, calls one function of `pipelines` and prints what that returns. What a command
needs is imported when it runs, so that `--help` and `--version` stay fast.
"""

from __future__ import annotations


def program() -> None:
    """Be the process of the command line: run it, and leave without tearing the interpreter down."""
    from pipelines.cli.run import exit_without_teardown

    with exit_without_teardown():
        main()


def main() -> None:
    """Run the command line and exit with its status (docs/reference/exit-codes.md)."""
    from pipelines.cli.run import run

    run()
