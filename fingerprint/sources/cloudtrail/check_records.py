"""Records that a device must read as the CPU does before it is used: real ones of many kinds, and lines made to be misread.

Example:
    >>> [len(batch) for batch in check_batches()]
    [89, 59, 1]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest

from fingerprint.sources.cloudtrail import samples

SAMPLE_SET = "real/schema_variety"  # one record of each kind of CloudTrail's
SAMPLE_RECORDS = 60  # records of the sample that are read
PLAIN_RANGE = (1, 60)  # records that are all plain: a device reads them without the host

_AT = b'"eventVersion":"1.08","eventTime":"2023-07-10T11:42:18Z"'
_WHO = b'"userIdentity":{"type":"IAMUser","accountId":"111122223333","userName":"alice"}'

MALFORMED_RECORDS: tuple[bytes, ...] = (
    b"{" + _AT + b"," + _WHO + b',"eventID":"","eventName":"","eventSource":"EC2.amazonaws.com"}',
    b"{"
    + _AT
    + b',"userAgent":"tab\\there \\"quoted\\" \\\\ and a \\u00e9 and a \\ud83d\\ude00","readOnly":"true"}',
    b"{" + _AT + ',"userAgent":"Zoë, 東京, 😀","eventName":"GetObject"}'.encode(),
    b"{" + _AT + b',"userAgent":"one","userAgent":"two","eventName":"TwoKeys"}',
    b"{" + _AT + b',"userIdentity":"text","eventName":["a","list"],"awsRegion":17,"readOnly":1}',
    b"{" + _AT + b',"userIdentity":{"sessionContext":[],"accountId":111122223333,"userName":null}}',
    b"{"
    + _AT
    + b',"requestParameters":{"z":1,"a":{"roleArn":"arn:aws:iam::444455556666:role/x"},"roleArn":"r"}}',
    b"{"
    + _AT
    + b',"requestParameters":"text","resources":[{"accountId":"444455556666"},{"accountId":null}]}',
    b"{"
    + _AT
    + b',"requestParameters":{"a,b":"arn:aws:s3:::bucket","":[]},"responseElements":{"ConsoleLogin":"Failure"}}',
    b"{"
    + _AT
    + b',"errorMessage":"denied","errorCode":"","mfaAuthenticated":"false","managementEvent":"yes"}',
    b'{ "eventVersion" : "1.08" , "eventTime" : "2023-07-10T11:42:18.123+02:00" , "eventName" : "Spaced" }',
    b'{"eventVersion":"1.08","eventTime":"2023-13-45T99:00:00Z","eventName":"NoSuchDay"}',
    b'{"eventVersion":"1.08","eventTime":1688989338,"eventName":"ANumber"}',
    b'{"eventVersion":"1.08","eventName":"NoTime"}',
    b'{"eventVersion":"1.08","eventTime":"2023-07-10T11:42:18Z","eventName":"CutOff"',
    b"{" + _AT + b",'eventName':'SingleQuotes'}",
    b"{" + _AT + b',"eventName":"Raw\tTab","n":NaN,"m":01,}',
    b"{" + _AT + b',"eventName":"After"} and more',
    b"{" + _AT + b',"eventID":"a","eventName":"ConsoleLogin","additionalEventData":{"MFAUsed":"Yes"}}',
    b"{" + _AT + b',"eventID":"b","eventName":"ConsoleLogin","additionalEventData":{"MFAUsed":true}}',
    b"{" + _AT + b',"eventCategory":"Insight","eventType":"AwsCloudTrailInsight"}',
    b"{" + _AT + b',"eventCategory":"ActivityAuditLog","eventType":"ActivityLog","eventData":{}}',
    b"{" + _AT + b',"eventID":"c","eventCategory":"NetworkActivity","errorCode":"VpceAccessDenied"}',
    b"{"
    + _AT
    + b',"eventID":"d","requestParameters":{"omitted":true,"originalSize":110000,"reason":"too large"}}',
    b"{" + _AT + b',"eventSource":"aws:s3","eventName":"ObjectCreated:Put"}',
    b"{"
    + _AT
    + b',"sourceIPAddress":"2001:db8::1","errorCode":"\\ud83d alone","n":1e999,"big":123456789012345678901234567890}',
    b"{" + _AT + b',"userAgent":"' + b"a" * 3000 + b'","eventName":"' + b"L" * 2000 + b'"}',
    b"[]",
    b"",
)


def check_records() -> list[bytes]:
    """Return real records with malformed lines between them, which must not affect their neighbours."""
    real = islice(samples.sample_lines(SAMPLE_SET), SAMPLE_RECORDS)
    return [line for pair in zip_longest(real, MALFORMED_RECORDS) for line in pair if line is not None]


def check_batches() -> Iterator[list[bytes]]:
    """Yield the batches to read: all check records, plain records that a device reads alone, and a batch without any event."""
    yield check_records()
    yield list(islice(samples.sample_lines(SAMPLE_SET), *PLAIN_RANGE))
    yield [b"[]"]
