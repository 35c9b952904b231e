"""Run the benchmarks as `python -m pipelines.bench`."""

from pipelines.bench.run import main

if __name__ == "__main__":
    main()
