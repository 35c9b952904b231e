"""Inference as a port: the autoencoders of a bank, computed in this process or by Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # so that programs which only name the port start without NumPy
    import numpy as np
    from numpy.typing import NDArray


class Inference(Protocol):
    """Losses of events against the fingerprints of one bank.

    Example:
        >>> losses, known = inference.losses(fingerprint, codes)

    Every answer is computed with the bank `version`; otherwise the call fails. All implementations agree to 1e-4 nats, however
    the rows are batched. Results are on the same device as the arguments.
    """

    @property
    def version(self) -> str:
        """Return the version of the bank."""
        ...

    @property
    def degraded(self) -> bool:
        """Return whether the last answer came from the fallback."""
        ...

    def losses(
        self, fingerprint: NDArray[np.int32], codes: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the loss of each feature in nats (N, F), and whether the fingerprint knew its value (N, F).

        `fingerprint` (N,) are rows of the stacked bank, `codes` (N, F) the encoded values. Raise FingerprintError for rows or
        codes that the bank cannot have; Unavailable if there is no answer in time.
        """
        ...
