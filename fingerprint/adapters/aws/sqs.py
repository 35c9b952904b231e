"""The door of notices: an SQS queue that several workers share.

Example:
    >>> with closing(SqsQueue("https://sqs.eu-west-1.amazonaws.com/111122223333/trail", Sqs())) as queue:
    ...     taken = queue.take()
    ...     work(taken)
    ...     queue.delete(taken)

*Taken* is hidden from the other workers, and stays so until it is deleted, given back (visible at once) or let go (visible when
its time is over); a heartbeat extends that time. A worker that dies does none of these, and its notices come again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Event, Lock, Thread
from typing import Any

from fingerprint.adapters.aws.session import create_client, translate_aws_errors
from fingerprint.core.alert import FingerprintError
from fingerprint.core.log import get_logger
from fingerprint.core.ports import Message, ReceivedMessage, Unavailable
from fingerprint.core.settings import Sqs

Extend = Callable[[list[str]], Collection[str]]  # receipts -> those that are no longer ours

log = get_logger("fingerprint.sqs")


class VisibilityExtender:
    """Extends receipts every `seconds`, until they are let go. One that could not be extended in time is another's then:
    both do the work, and repeats reduce by id."""

    def __init__(self, extend: Extend, interval_seconds: float) -> None:
        self.extend, self.interval_seconds = extend, interval_seconds
        self.receipts: dict[str, None] = {}  # in the order in which they were taken
        self.failure: FingerprintError | None = None
        self.lock = Lock()  # held while extending, so that nothing is extended after it was let go
        self.stopped = Event()
        self.thread = Thread(target=self._run, name="hold", daemon=True)

    def add(self, receipts: Iterable[str]) -> None:
        """Raises what the heartbeat ran into."""
        if self.failure:
            raise self.failure
        with self.lock:
            self.receipts.update(dict.fromkeys(receipts))
        if self.receipts and not self.thread.ident:
            self.thread.start()

    def discard(self, receipts: Iterable[str]) -> None:
        with self.lock:
            for receipt in receipts:
                self.receipts.pop(receipt, None)

    def close(self) -> None:
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
                log.warning("a notice could not be held any longer: another worker may read it too")
        except Unavailable as error:
            log.warning("notices could not be held", reason=str(error))
        except FingerprintError as error:
            self.failure = error


WAIT_TIME_SECONDS = 10  # that one long poll waits (WaitTimeSeconds)
MAX_BATCH_SIZE = 10  # what SQS takes and gives in one call
_URL = re.compile(r"https?://[^/\s]+/(\d{12})/([A-Za-z0-9_-]{1,80}(?:\.fifo)?)")


def queue_name(url: str) -> str:
    """`sqs:account:name`: no topic of Kafka's can be called so. FingerprintError if it is no queue's URL.

    >>> name_of("https://sqs.eu-west-1.amazonaws.com/111122223333/trail")
    'sqs:111122223333:trail'
    """
    parts = _URL.fullmatch(url)
    if not parts:
        raise FingerprintError(
            f"{url}: no URL of a queue; it looks like https://sqs.eu-west-1.amazonaws.com/111122223333/trail"
        )
    return f"sqs:{parts[1]}:{parts[2]}"


class SqsQueue:
    """Asks for the queue at once. One thread at a time. FingerprintError: a person must mend it; Away: time may."""

    def __init__(self, url: str, settings: Sqs) -> None:
        self.url, self.name, self.settings = url, queue_name(url), settings
        self.client = create_client("sqs", url)
        self.visibility_extender = VisibilityExtender(
            self._extend_visibility, settings.visibility_timeout_seconds / 3
        )
        self.approximate_depth()

    def receive(self) -> list[ReceivedMessage]:
        """At most MOST, as soon as there are any; none after `wait_seconds`."""
        answer = self._call_sqs(
            "receive_message",
            MaxNumberOfMessages=MAX_BATCH_SIZE,
            WaitTimeSeconds=WAIT_TIME_SECONDS,
            VisibilityTimeout=self.settings.visibility_timeout_seconds,
            MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
        )
        taken = [self._to_received_message(each) for each in answer.get("Messages", ())]
        self.visibility_extender.add([each.receipt for each in taken])
        return taken

    def delete(self, received: Sequence[ReceivedMessage]) -> int:
        """They never come again; how many were no longer ours."""
        self.stop_extending(received)
        return len(self._in_batches("delete_message_batch", [each.receipt for each in received]))

    def return_to_queue(self, received: Sequence[ReceivedMessage]) -> None:
        """Others may have them at once."""
        self.stop_extending(received)
        self._in_batches(
            "change_message_visibility_batch", [each.receipt for each in received], VisibilityTimeout=0
        )

    def stop_extending(self, received: Sequence[ReceivedMessage]) -> None:
        """They come again when their time is over: what a pause would do some good."""
        self.visibility_extender.discard([each.receipt for each in received])

    def send(self, body: bytes) -> None:
        """Put a message on the queue, safe when it returns."""
        self._call_sqs("send_message", MessageBody=body.decode(errors="surrogatepass"))

    def approximate_depth(self) -> int:
        """About how many are there to be taken."""
        wanted = "ApproximateNumberOfMessages"
        return int(self._call_sqs("get_queue_attributes", AttributeNames=[wanted])["Attributes"][wanted])

    def close(self) -> None:
        self.visibility_extender.close()
        self.client.close()

    def _to_received_message(self, answer: Any) -> ReceivedMessage:
        about = answer.get("Attributes", {})
        sent = int(about.get("SentTimestamp", 0))
        body = answer["Body"].encode(errors="surrogatepass")
        message = Message(self.name, 0, sent, None, body, (), sent)
        receives = int(about.get("ApproximateReceiveCount", 1))
        return ReceivedMessage(answer["MessageId"], answer["ReceiptHandle"], message, receives)

    def _extend_visibility(self, receipts: list[str]) -> list[str]:
        seconds = self.settings.visibility_timeout_seconds
        return self._in_batches("change_message_visibility_batch", receipts, VisibilityTimeout=seconds)

    def _in_batches(self, what: str, receipts: list[str], **each: Any) -> list[str]:
        """The receipts that were refused."""
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
