"""Finds stolen and misused cloud credentials by knowing everyone's habits. Start reading at `pipelines/score.py`."""
