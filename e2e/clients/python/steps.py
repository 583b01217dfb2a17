"""Shared by the programs in Python: the report of a step, its assertions, plain HTTP and forms."""

import itertools
import os
import uuid
from http.client import HTTPConnection
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError

failed = 0
# The settings of a public access block.
SETTINGS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


def step(name, work):
    """Prints one line for a step, and goes on when it fails."""
    global failed
    try:
        work()
        print(f"{name}\tok", flush=True)
    except Exception as error:
        failed += 1
        print(f"{name}\tFAILED {type(error).__name__} {error}".replace("\n", " "), flush=True)


def skipped(name, why):
    """Prints one line for a step that cannot be taken here."""
    print(f"{name}\tSKIPPED {why}", flush=True)


def clients(service, **own):
    """A client through each node in turn, at its address for S3 or for IAM; with a key pair of its own, or root's."""
    endpoints = os.environ["SHERD_ENDPOINTS" if service == "s3" else "SHERD_IAM_ENDPOINTS"].split()
    return itertools.cycle([boto3.client(service, endpoint_url=endpoint, **own) for endpoint in endpoints])


def end():
    """Ends with 1 where a step failed."""
    raise SystemExit(failed > 0)


def same(found, expected):
    if found != expected:
        raise AssertionError(f"found {str(found)[:400]}, expected {str(expected)[:400]}")


def public(bucket):
    """A policy that lets everyone read the objects of a bucket."""
    resource = f"arn:aws:s3:::{bucket}/*"
    statement = {"Sid": "All", "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


def policy_of(actions, resources, effect="Allow"):
    """A policy of one statement, for a user, a group or many of them."""
    return {"Version": "2012-10-17", "Statement": [{"Effect": effect, "Action": actions, "Resource": resources}]}


def refused(expected, work):
    """Succeeds where `work` is refused with this status, or with this code."""
    try:
        work()
    except ClientError as error:
        found = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return same(found if isinstance(expected, int) else error.response["Error"]["Code"], expected)
    raise AssertionError(f"succeeded, expected {expected}")


def http(method, url, body=None, headers=None, status=200):
    """Sends a request without an S3 library, and without a type: older signatures cover it. Returns headers and body."""
    where = urlsplit(url)
    connection = HTTPConnection(where.netloc, timeout=60)
    connection.request(method, f"{where.path}?{where.query}" if where.query else where.path, body, headers or {})
    with connection.getresponse() as answer:
        text = answer.read()
        if answer.status != status:
            raise AssertionError(f"{answer.status} {answer.getheaders()} {text.decode()}")
        return answer.headers, text


def form(fields, body, name):
    """Writes a form as a browser does: its fields, then the file. Returns the content type and the bytes."""
    boundary = uuid.uuid4().hex
    parts = [f'Content-Disposition: form-data; name="{field}"\r\n\r\n{value}' for field, value in fields.items()]
    parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: text/plain\r\n\r\n')
    head = "".join(f"\r\n--{boundary}\r\n{part}" for part in parts)[2:]
    return f"multipart/form-data; boundary={boundary}", head.encode() + body + f"\r\n--{boundary}--\r\n".encode()


def tags(found):
    """Reads the tag set of an answer."""
    return {tag["Key"]: tag["Value"] for tag in found["TagSet"]}


def tag_set(tags):
    return {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}
