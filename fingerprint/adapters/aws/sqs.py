"""An SQS queue of notifications that several workers share.

Example:
    >>> with closing(SqsQueue("https://sqs.eu-west-1.amazonaws.com/111122223333/trail", Sqs())) as queue:
    ...     received = queue.receive()
    ...     process(received)
    ...     queue.delete(received)

A received message is hidden from the other workers until it is deleted, returned (visible at once), or its visibility timeout is
over; a heartbeat extends that timeout. A worker that dies does none of these, so its messages become visible again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Event, Lock, Thread
from typing import Any

from fingerprint.adapters.aws.session import create_client, translate_aws_errors
from fingerprint.core.errors import FingerprintError, Unavailable
from fingerprint.core.log import get_logger
from fingerprint.core.ports.message_stream import Message
from fingerprint.core.ports.object_store import ReceivedMessage
from fingerprint.core.settings import Sqs

Extend = Callable[[list[str]], Collection[str]]  # receipts -> those that are no longer ours

log = get_logger("fingerprint.sqs")


class VisibilityExtender:
    """A thread that keeps received messages hidden from other workers, however long an object takes.

    It extends receipts every `interval_seconds` until they are discarded. A message that could not be extended in time goes to
    another worker. Both process it, which is harmless because ids come from content.
    """

    def __init__(self, extend: Extend, interval_seconds: float) -> None:
        self.extend, self.interval_seconds = extend, interval_seconds
        self.receipts: dict[str, None] = {}  # in the order in which they were taken
        self.failure: FingerprintError | None = None
        self.lock = Lock()  # held while extending, so that no receipt is extended after it was discarded
        self.stopped = Event()
        self.thread = Thread(target=self._run, name="hold", daemon=True)

    def add(self, receipts: Iterable[str]) -> None:
        """Extend these receipts from now on. Raise the error that ended the heartbeat, if one did."""
        if self.failure:
            raise self.failure
        with self.lock:
            self.receipts.update(dict.fromkeys(receipts))
        if self.receipts and not self.thread.ident:
            self.thread.start()

    def discard(self, receipts: Iterable[str]) -> None:
        """Extend these receipts no longer."""
        with self.lock:
            for receipt in receipts:
                self.receipts.pop(receipt, None)

    def close(self) -> None:
        """End the heartbeat."""
        self.stopped.set()
        if self.thread.ident:
            self.thread.join()

    def _run(self) -> None:
        while not self.stopped.wait(self.interval_seconds):
            with self.lock:
                self._extend_all()

    def _extend_all(self) -> None:
        try:
            for receipt in self.extend(list(self.receipts)):
                del self.receipts[receipt]
                log.warning("a message could not be kept hidden any longer: another worker may read it too")
        except Unavailable as error:
            log.warning("messages could not be kept hidden", reason=str(error))
        except FingerprintError as error:
            self.failure = error


WAIT_TIME_SECONDS = 10  # of one long poll (WaitTimeSeconds)
MAX_BATCH_SIZE = 10  # messages that SQS takes and gives in one call
_URL = re.compile(r"https?://[^/\s]+/(\d{12})/([A-Za-z0-9_-]{1,80}(?:\.fifo)?)")


def queue_name(url: str) -> str:
    """Return `sqs:account:name`, a name that no Kafka topic can have. Raise FingerprintError for a URL of another form.

    >>> queue_name("https://sqs.eu-west-1.amazonaws.com/111122223333/trail")
    'sqs:111122223333:trail'
    """
    parts = _URL.fullmatch(url)
    if not parts:
        raise FingerprintError(
            f"{url}: no URL of a queue; it looks like https://sqs.eu-west-1.amazonaws.com/111122223333/trail"
        )
    return f"sqs:{parts[1]}:{parts[2]}"


class SqsQueue:
    """An SQS queue, used by one thread at a time. Implement `ports.object_store.MessageQueue`.

    The constructor and every method raise FingerprintError if a person must help, Unavailable for errors that may pass.
    """

    def __init__(self, url: str, settings: Sqs) -> None:
        self.url, self.name, self.settings = url, queue_name(url), settings
        self.client = create_client("sqs", url)
        self.visibility_extender = VisibilityExtender(
            self._extend_visibility, settings.visibility_timeout_seconds / 3
        )
        self.approximate_depth()

    def receive(self) -> list[ReceivedMessage]:
        """Return at most MAX_BATCH_SIZE messages as soon as there are any; an empty list after WAIT_TIME_SECONDS."""
        answer = self._call_sqs(
            "receive_message",
            MaxNumberOfMessages=MAX_BATCH_SIZE,
            WaitTimeSeconds=WAIT_TIME_SECONDS,
            VisibilityTimeout=self.settings.visibility_timeout_seconds,
            MessageSystemAttributeNames=[
                "SentTimestamp",
                "ApproximateReceiveCount",
                "ApproximateFirstReceiveTimestamp",
            ],
        )
        taken = [self._to_received_message(each) for each in answer.get("Messages", ())]
        self.visibility_extender.add([each.receipt for each in taken])
        return taken

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        """Delete messages for good; return the number of those that had already gone to another worker."""
        self._stop_extending(received)
        return len(self._in_batches("delete_message_batch", [each.receipt for each in received]))

    def return_to_queue(self, received: Sequence[ReceivedMessage]) -> None:
        """Make messages visible to other workers at once."""
        self.hide(received, 0)

    def hide(self, received: Sequence[ReceivedMessage], seconds: int) -> None:
        """Make messages visible to other workers after so many seconds."""
        self._stop_extending(received)
        self._in_batches(
            "change_message_visibility_batch", [each.receipt for each in received], VisibilityTimeout=seconds
        )

    def _stop_extending(self, received: Sequence[ReceivedMessage]) -> None:
        self.visibility_extender.discard([each.receipt for each in received])

    def send(self, body: bytes) -> None:
        """Send a message; it is durable when the call returns."""
        self._call_sqs("send_message", MessageBody=body.decode(errors="surrogatepass"))

    def approximate_depth(self) -> int:
        """Return the approximate number of visible messages."""
        name = "ApproximateNumberOfMessages"
        return int(self._call_sqs("get_queue_attributes", AttributeNames=[name])["Attributes"][name])

    def close(self) -> None:
        """End the heartbeat and close the client."""
        self.visibility_extender.close()
        self.client.close()

    def _to_received_message(self, answer: Any) -> ReceivedMessage:
        about = answer.get("Attributes", {})
        sent = int(about.get("SentTimestamp", 0))
        body = answer["Body"].encode(errors="surrogatepass")
        message = Message(self.name, 0, sent, None, body, (), sent)
        receives = int(about.get("ApproximateReceiveCount", 1))
        first = int(about.get("ApproximateFirstReceiveTimestamp", 0))
        return ReceivedMessage(answer["MessageId"], answer["ReceiptHandle"], message, receives, first)

    def _extend_visibility(self, receipts: list[str]) -> list[str]:
        seconds = self.settings.visibility_timeout_seconds
        return self._in_batches("change_message_visibility_batch", receipts, VisibilityTimeout=seconds)

    def _in_batches(self, what: str, receipts: list[str], **each: Any) -> list[str]:
        """Return the receipts that were refused."""
        return [
            refused
            for start in range(0, len(receipts), MAX_BATCH_SIZE)
            for refused in self._send_batch(what, receipts[start : start + MAX_BATCH_SIZE], each)
        ]

    def _send_batch(self, what: str, receipts: list[str], each: dict[str, Any]) -> Iterator[str]:
        entries = [{"Id": str(n), "ReceiptHandle": receipt, **each} for n, receipt in enumerate(receipts)]
        for refused in self._call_sqs(what, Entries=entries).get("Failed", ()):
            yield receipts[int(refused["Id"])]

    def _call_sqs(self, what: str, **arguments: Any) -> Any:
        with translate_aws_errors(self.url):
            return getattr(self.client, what)(QueueUrl=self.url, **arguments)
