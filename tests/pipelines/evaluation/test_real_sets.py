"""Which folders are real sets, and which of them say what was an attack."""

from __future__ import annotations

import gzip
from pathlib import Path

from fingerprint.sources.cloudtrail import samples
from pipelines.evaluation.real_sets import has_attacks, real_sets


def test_a_real_set_is_a_folder_with_records_of_its_own_name_and_counts_once(tmp_path: Path) -> None:
    for place, name in (("a", "one"), ("a", "two"), ("b", "one")):
        folder = tmp_path / place / name
        folder.mkdir(parents=True)
        if (place, name) != ("a", "two"):
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(b""))
    assert real_sets([tmp_path / "a", tmp_path / "b"]) == [tmp_path / "a" / "one"]


def test_what_matches_a_rule_is_no_labelled_attack() -> None:
    names = {path.name for path in real_sets([samples.data_folder("real")]) if has_attacks(path)}
    assert names == {"invictus_stratus"}
