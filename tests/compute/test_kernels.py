"""NVRTC, which compiles kernels on a machine with a device, takes them: it needs none itself."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from fingerprint.compute.kernels import kernel_source

PACKAGE = Path(__file__).parents[2] / "fingerprint"
KERNELS = sorted(PACKAGE.rglob("*.cu"))
ARCHITECTURES = ("compute_75", "compute_90")  # Turing, the oldest that CUDA 13 knows; Hopper


@pytest.fixture(scope="module")
def nvrtc() -> ctypes.CDLL:
    nvidia = pytest.importorskip("nvidia", reason="PyTorch without CUDA")
    found = sorted(file for path in nvidia.__path__ for file in Path(path).glob("*/lib/libnvrtc.so*"))
    if not found:
        pytest.skip("PyTorch without NVRTC")
    return ctypes.CDLL(str(found[0]))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", KERNELS, ids=lambda file: file.stem)
def test_a_kernel_is_compiled_for_a_device(nvrtc: ctypes.CDLL, file: Path, architecture: str) -> None:
    assert compile_errors(nvrtc, kernel_source(file), architecture) == ""


def test_the_compiler_says_what_it_does_not_take(nvrtc: ctypes.CDLL) -> None:
    assert '"missing" is undefined' in compile_errors(
        nvrtc, "__device__ int one = missing;", ARCHITECTURES[0]
    )


def compile_errors(nvrtc: ctypes.CDLL, source: str, architecture: str) -> str:
    """Return what NVRTC says of a source, as CuPy would give it: nothing where it takes it."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--std=c++14")
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), options)
        assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
        text = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetProgramLog(program, text) == 0
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert (status == 0) == (not text.value), "a warning, or an error without a word"
    return text.value.decode()
