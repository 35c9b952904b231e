"""Run the command line as `python -m pipelines.cli`."""

from pipelines.cli import main

if __name__ == "__main__":
    main()
