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
from collections.abc import Iterator, Sequence
from typing import Any

from fingerprint.adapters.aws.session import client, meant
from fingerprint.adapters.aws.visibility import Hold
from fingerprint.core.alert import FingerprintError
from fingerprint.core.ports import Message, Taken
from fingerprint.core.settings import Sqs

MOST = 10  # what SQS takes and gives in one call
_URL = re.compile(r"https?://[^/\s]+/(\d{12})/([A-Za-z0-9_-]{1,80}(?:\.fifo)?)")


def name_of(url: str) -> str:
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
        self.url, self.name, self.settings = url, name_of(url), settings
        self.client = client("sqs", url)
        self.hold = Hold(self._extended, settings.visibility_seconds / 3)
        self.waiting()

    def take(self) -> list[Taken]:
        """At most MOST, as soon as there are any; none after `wait_seconds`."""
        answer = self._ask(
            "receive_message",
            MaxNumberOfMessages=MOST,
            WaitTimeSeconds=self.settings.wait_seconds,
            VisibilityTimeout=self.settings.visibility_seconds,
            MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount"],
        )
        taken = [self._taken(each) for each in answer.get("Messages", ())]
        self.hold.take([each.receipt for each in taken])
        return taken

    def delete(self, taken: Sequence[Taken]) -> int:
        """They never come again; how many were no longer ours."""
        self.let_go(taken)
        return len(self._in_tens("delete_message_batch", [each.receipt for each in taken]))

    def give_back(self, taken: Sequence[Taken]) -> None:
        """Others may have them at once."""
        self.let_go(taken)
        self._in_tens(
            "change_message_visibility_batch", [each.receipt for each in taken], VisibilityTimeout=0
        )

    def let_go(self, taken: Sequence[Taken]) -> None:
        """They come again when their time is over: what a pause would do some good."""
        self.hold.let_go([each.receipt for each in taken])

    def send(self, body: bytes) -> None:
        """Put a message on the queue, safe when it returns."""
        self._ask("send_message", MessageBody=body.decode(errors="surrogatepass"))

    def waiting(self) -> int:
        """About how many are there to be taken."""
        wanted = "ApproximateNumberOfMessages"
        return int(self._ask("get_queue_attributes", AttributeNames=[wanted])["Attributes"][wanted])

    def close(self) -> None:
        self.hold.close()
        self.client.close()

    def _taken(self, answer: Any) -> Taken:
        about = answer.get("Attributes", {})
        sent = int(about.get("SentTimestamp", 0))
        body = answer["Body"].encode(errors="surrogatepass")
        message = Message(self.name, 0, sent, None, body, (), sent)
        receives = int(about.get("ApproximateReceiveCount", 1))
        return Taken(answer["MessageId"], answer["ReceiptHandle"], message, receives)

    def _extended(self, receipts: list[str]) -> list[str]:
        seconds = self.settings.visibility_seconds
        return self._in_tens("change_message_visibility_batch", receipts, VisibilityTimeout=seconds)

    def _in_tens(self, what: str, receipts: list[str], **each: Any) -> list[str]:
        """The receipts that were refused."""
        return [
            refused
            for start in range(0, len(receipts), MOST)
            for refused in self._ten(what, receipts[start : start + MOST], each)
        ]

    def _ten(self, what: str, receipts: list[str], each: dict[str, Any]) -> Iterator[str]:
        entries = [{"Id": str(n), "ReceiptHandle": receipt, **each} for n, receipt in enumerate(receipts)]
        for refused in self._ask(what, Entries=entries).get("Failed", ()):
            yield receipts[int(refused["Id"])]

    def _ask(self, what: str, **arguments: Any) -> Any:
        with meant(self.url):
            return getattr(self.client, what)(QueueUrl=self.url, **arguments)
