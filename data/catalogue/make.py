"""Makes operations.tsv.gz, every AWS operation with its parameters, from botocore's service models.

Run from the repository root, with the dev extra installed:
    python data/catalogue/make.py

Columns: event source, event name, r|w (reads or writes), API version or nothing, parameters, response
members, the command in the AWS CLI. A member is `name:type`, with `!` behind what is required; types are
s(tring) i(nteger) d(ouble)
b(oolean) t(imestamp) l(ist) m(ap or structure). Names are spelled as CloudTrail spells them: first letter
small.
"""

import gzip
import io
import re
from pathlib import Path

import botocore.session
from botocore import xform_name

READS = re.compile(
    r"^(Get|List|Describe|Head|BatchGet|BatchDescribe|Search|Lookup|Query|Scan|Select|Simulate|Validate|Check|"
    r"Estimate|Preview|Retrieve|View|Discover|Count|Detect|Test|Filter|Resolve|Verify|Download|Assume)"
)
DATA_PLANE = {  # (service, what its data events are called): not in a trail of management events
    "s3": re.compile(r"Object|Multipart|UploadPart|SelectObject|CreateSession"),
    "dynamodb": re.compile(
        r"Item|^Query$|^Scan$|PartiQL|ExecuteStatement|ExecuteTransaction|^GetRecords$|ShardIterator"
    ),
    "lambda": re.compile(r"^Invoke"),
    "sqs": re.compile(r"Message"),
    "sns": re.compile(r"^Publish"),
    "kinesis": re.compile(r"Record|ShardIterator|SubscribeToShard"),
    "logs": re.compile(r"PutLogEvents|StartLiveTail"),
    "monitoring": re.compile(r"PutMetricData"),
}
RENAMED = {  # what CloudTrail calls it
    ("s3", "GetPublicAccessBlock"): "GetBucketPublicAccessBlock",
    ("s3", "PutPublicAccessBlock"): "PutBucketPublicAccessBlock",
    ("s3", "GetBucketLifecycleConfiguration"): "GetBucketLifecycle",
    ("s3", "PutBucketLifecycleConfiguration"): "PutBucketLifecycle",
    ("s3", "GetBucketReplication"): "GetBucketReplication",
}
CLI_NAMES = {"s3": "s3api", "config": "configservice", "codedeploy": "deploy"}  # where it is not botocore's
KINDS = {
    "string": "s",
    "character": "s",
    "blob": "s",
    "integer": "i",
    "long": "i",
    "float": "d",
    "double": "d",
    "boolean": "b",
    "timestamp": "t",
    "list": "l",
    "map": "m",
    "structure": "m",
}


def main() -> None:
    session = botocore.session.get_session()
    lines: dict[tuple[str, str], tuple[str, ...]] = {}
    commands: dict[tuple[str, str], str] = {}
    for service in session.get_available_services():
        model = session.get_service_model(service)
        source = (model.metadata.get("signingName") or model.metadata["endpointPrefix"]).removeprefix("api.")
        source = {"cloudwatch": "monitoring", "email": "ses"}.get(source, source.lower())
        for name in model.operation_names:
            if source in DATA_PLANE and DATA_PLANE[source].search(name):
                continue
            event = event_name(source, name, model)
            lines.setdefault((source, event), row(source, event, name, model))
            if (source, event) not in commands or service == source:  # of DocumentDB and RDS, RDS
                commands[source, event] = f"{CLI_NAMES.get(service, service)} {xform_name(name, '-')}"
    path = Path(__file__).with_name("operations.tsv.gz")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=9) as out:
        rows = ("\t".join((*lines[key], commands[key])) for key in sorted(lines))
        out.write("".join(f"{each}\n" for each in rows).encode())
    path.write_bytes(packed.getvalue())
    services = {source for source, _ in lines}
    print(f"{len(lines)} operations of {len(services)} services: {path.stat().st_size} bytes")


def event_name(source: str, name: str, model: botocore.model.ServiceModel) -> str:
    uri = model.operation_model(name).http.get("requestUri", "")
    dated = re.match(r"/(\d{4})-(\d\d)-(\d\d)/", uri)
    if source == "lambda" and dated:
        return name + "".join(dated.groups())
    if source == "cloudfront" and dated:
        return f"{name}{'_'.join(dated.groups())}"
    return RENAMED.get((source, name), name)


def row(source: str, event: str, name: str, model: botocore.model.ServiceModel) -> tuple[str, ...]:
    operation = model.operation_model(name)
    reads = bool(READS.match(name)) and not (source == "iam" and name.startswith("Resync"))
    dated = model.metadata["apiVersion"] if source in ("elasticloadbalancing", "route53") else ""
    answer = "" if reads else members(operation.output_shape, 4)
    return (
        f"{source}.amazonaws.com",
        event,
        "r" if reads else "w",
        dated,
        members(operation.input_shape, 12),
        answer,
    )


def members(shape: botocore.model.Shape | None, most: int) -> str:
    if shape is None:
        return ""
    wanted = set(getattr(shape, "required_members", ()))
    names = sorted(shape.members, key=lambda name: name not in wanted)[:most]
    return ",".join(
        f"{small(n)}:{KINDS[shape.members[n].type_name]}{'!' if n in wanted else ''}" for n in names
    )


def small(name: str) -> str:
    return name[:1].lower() + name[1:]


if __name__ == "__main__":
    main()
