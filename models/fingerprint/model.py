"""The model that Triton runs: losses of events against one version of a bank, for many requests at once.

It lies in a version's folder beside `bank/`, and only passes arrays on: `fingerprint.detection.triton_model` computes.
"""

from __future__ import annotations

import ctypes
import importlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as triton

from fingerprint.compute import arrays
from fingerprint.core.errors import FingerprintError
from fingerprint.core.extras import how_to_install
from fingerprint.core.settings import load_settings
from fingerprint.detection import triton_model
from fingerprint.registry.bank import Bank

USED = ctypes.c_char_p(b"used_dltensor")


class TritonPythonModel:
    """One instance: one process with one bank. Several may share a device, each with a copy of the bank there."""

    def initialize(self, args: dict[str, str]) -> None:
        """Open the bank of this version and place it on the instance's device.

        Raise FingerprintError if the bank is damaged, has another number than the version, or is not signed by a key of
        FINGERPRINT_BANK__VERIFY_KEY_FILES. Triton then does not serve this version.
        """
        folder = Path(args["model_repository"]) / args["model_version"] / "bank"
        bank = triton_model.open_numbered_bank(folder, int(args["model_version"]), load_settings().bank)
        self.device_scope = _device(args)
        with self.device_scope:
            self.model = triton_model.TritonBankModel(_placed(bank, args))
        triton.Logger.log_info(f"fingerprint serves bank {bank.version} on {self.model.device}")

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return a response to each request, all computed together; an error to a request with rows that the bank cannot have."""
        asked = [(_array(request, "fingerprint")[:, 0], _array(request, "codes")) for request in requests]
        with self.device_scope:
            return [_response(answer) for answer in self.model.infer_batch(asked)]


def _array(request: Any, name: str) -> np.ndarray:
    """Return an input of a request.

    It is read by DLPack, because the backend's own `as_numpy` reads NumPy 1's structures, and in NumPy 2 finds items of no size.
    """
    return np.from_dlpack(triton.get_input_tensor_by_name(request, name))


def _response(answer: triton_model.InferenceResult | FingerprintError) -> Any:
    if isinstance(answer, FingerprintError):
        return triton.InferenceResponse(error=triton.TritonError(str(answer), triton.TritonError.INVALID_ARG))
    columns = {
        "loss": answer.loss,
        "known": answer.known.astype(np.uint8),
        "z": answer.z[:, None],
        "level": answer.level[:, None],
    }
    return triton.InferenceResponse([_tensor(name, array) for name, array in columns.items()])


def _tensor(name: str, array: np.ndarray) -> Any:
    """Return an output of a response, passed by DLPack as in `_array`.

    A capsule whose content was taken must be called "used_dltensor". The backend gives it another name, and NumPy would warn of
    every tensor.
    """
    capsule = np.array(array, order="C").__dlpack__()
    tensor = triton.Tensor.from_dlpack(name, capsule)
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), USED)
    return tensor


# --- the instance's device ----------------------------------------------------------------------------------------------


def _device(args: dict[str, str]) -> AbstractContextManager[Any]:
    """Return a context in which CuPy works on the instance's own device."""
    if args["model_instance_kind"] == "GPU" and (cupy := _library("cupy")):
        return cupy.cuda.Device(int(args["model_instance_device_id"]))
    return nullcontext()


def _placed(bank: Bank, args: dict[str, str]) -> Bank:
    """Return the bank with all arrays on the instance's GPU (with CuPy), its networks alone (with torch), or unchanged."""
    if args["model_instance_kind"] != "GPU":
        return bank
    if cupy := _library("cupy"):
        return bank.on(cupy.asarray)
    if _library("torch"):
        device = f"cuda:{args['model_instance_device_id']}"
        return triton_model.place_networks(bank, lambda array: arrays.to_torch(array).to(device))
    triton.Logger.log_warn(
        f"neither CuPy nor torch is in this environment: the GPU is not used ({how_to_install('gpu')})"
    )
    return bank


def _library(name: str) -> Any:
    """Return a module, None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
