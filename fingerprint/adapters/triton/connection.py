"""A connection to a Triton server, as the settings guard it.

Example:
    >>> client = connected(settings.triton)         # over TLS where triton.tls says so
"""

from __future__ import annotations

from tritonclient.grpc import InferenceServerClient

from fingerprint.core import settings

CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a new client connects at once, whatever became of the one before
]


def connect(options: settings.Triton) -> InferenceServerClient:
    """A client, which connects when it is first asked. FingerprintError where a file of the settings cannot be read."""
    options.check_files()
    return InferenceServerClient(
        str(options.url),
        ssl=options.tls,
        root_certificates=options.ca_file,
        certificate_chain=options.certificate_file,
        private_key=options.certificate_key_file,
        channel_args=CHANNEL_OPTIONS,
    )
