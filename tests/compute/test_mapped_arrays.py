"""Arrays on disk: cut into shards of bounded size, opened whole without being read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from fingerprint.compute import mapped_arrays

SMALL = 1 << 16  # bytes: a shard as small as it can be


def large(rows: int = 5000, width: int = 51) -> NDArray[np.float32]:
    return np.arange(rows * width, dtype=np.float32).reshape(rows, width)


def written(folder: Path, shard_bytes: int = SMALL, **arrays: NDArray[Any]) -> list[str]:
    folder.mkdir(exist_ok=True)
    mapped_arrays.write_arrays(arrays, folder, "stack", shard_bytes)
    return sorted(file.name for file in folder.iterdir())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    array=arrays_of.arrays(
        st.sampled_from(list(mapped_arrays.DTYPE_NAMES)),
        arrays_of.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7),
    )
)
def test_an_array_of_any_type_and_shape_comes_back_as_it_was(tmp_path: Path, array: NDArray[Any]) -> None:
    written(tmp_path / "a", array=array, other=np.arange(3, dtype=np.int8))
    back = mapped_arrays.open_arrays(tmp_path / "a", "stack")
    assert (back["array"].dtype, back["array"].shape) == (array.dtype, array.shape)
    assert back["array"].tobytes() == array.tobytes()
    assert back["other"].tolist() == [0, 1, 2]


def test_no_file_is_much_larger_than_a_shard_may_be(tmp_path: Path) -> None:
    names = written(tmp_path, inputs=large(40_000), bias=np.ones(3))
    assert len(names) > 2
    assert all((tmp_path / name).stat().st_size <= 52 * SMALL for name in names), (
        "204 bytes a row: only every 16,384th row ends where a page may"
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.uint64])
def test_an_array_in_many_shards_is_one_array_again(tmp_path: Path, dtype: type) -> None:
    array = np.random.default_rng(0).integers(0, 255, (9001, 24, 8)).astype(dtype)
    names = written(tmp_path, inputs=array)
    assert len(names) > 3
    np.testing.assert_array_equal(mapped_arrays.open_arrays(tmp_path, "stack")["inputs"], array)


def test_what_is_opened_is_not_in_memory_until_it_is_looked_at(tmp_path: Path) -> None:
    written(tmp_path, 8 << 20, inputs=np.ones((400_000, 32), np.float32))
    before = anonymous_kib()
    opened = mapped_arrays.open_arrays(tmp_path, "stack")["inputs"]
    assert float(opened[123_456, 7]) == 1.0
    assert opened.nbytes > 48 << 20
    assert anonymous_kib() - before < 4 << 10


def anonymous_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_anyone_who_writes_to_an_opened_array_changes_no_file(tmp_path: Path) -> None:
    written(tmp_path, inputs=large(), bias=np.zeros(3))
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    opened = mapped_arrays.open_arrays(tmp_path, "stack")
    for array in opened.values():
        array += 1
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    np.testing.assert_array_equal(opened["inputs"], large() + 1)


def test_an_opened_array_outlives_its_files(tmp_path: Path) -> None:
    written(tmp_path, inputs=large())
    opened = mapped_arrays.open_arrays(tmp_path, "stack")["inputs"]
    for file in tmp_path.iterdir():
        file.unlink()
    np.testing.assert_array_equal(opened, large())


def test_every_shard_is_plain_safetensors_to_anyone_who_else_reads_it(tmp_path: Path) -> None:
    names = written(tmp_path, inputs=large(), bias=np.arange(3.0))
    parts = [load_file(tmp_path / name) for name in names]
    np.testing.assert_array_equal(
        np.concatenate([part["inputs"] for part in parts if "inputs" in part]), large()
    )
    assert load_file(tmp_path / "stack.safetensors")["bias"].tolist() == [0, 1, 2]


def test_shards_that_someone_else_cut_are_read_too(tmp_path: Path) -> None:
    save_file({"bias": np.ones(3)}, tmp_path / "stack.safetensors")
    for number, rows in enumerate(np.array_split(large(), 7)):
        save_file({"inputs": rows}, tmp_path / f"stack.inputs.{number:05}.safetensors")
    np.testing.assert_array_equal(mapped_arrays.open_arrays(tmp_path, "stack")["inputs"], large())


# --- what is no safetensors -----------------------------------------------------------------------------------------


def header(**each: Any) -> bytes:
    text = json.dumps({"bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **each}}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        (1 << 62).to_bytes(8, "little"),
        (4).to_bytes(8, "little") + b"null",
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"\xff{}",
        header(shape=[3]),
        header(shape=[-1, -2]),
        header(data_offsets=[8, 16]),
        header(data_offsets=[-8, 0]),
        header(data_offsets=[0, 8, 9]),
        header(dtype="OBJECT"),
        header(shape="2"),
        header(shape=[1 << 62, 1 << 62]),
    ],
)
def test_a_file_that_is_no_safetensors_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "stack.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"stack\.safetensors"):
        mapped_arrays.open_arrays(tmp_path, "stack")


def test_shards_that_do_not_fit_together_are_refused_by_the_array(tmp_path: Path) -> None:
    written(tmp_path, inputs=large())
    save_file({"inputs": np.ones((4, 4))}, tmp_path / "stack.inputs.00099.safetensors")
    with pytest.raises(ValueError, match="inputs"):
        mapped_arrays.open_arrays(tmp_path, "stack")
