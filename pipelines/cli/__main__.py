"""Run the command line as `python -m pipelines.cli`."""

from pipelines.cli import program

if __name__ == "__main__":
    program()
