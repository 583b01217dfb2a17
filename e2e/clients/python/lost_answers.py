"""Conditional writes whose answers are lost, with boto3.

A relay before each node forwards everything, and cuts the connection where a conditional write has succeeded, before a
byte of its answer is forwarded. boto3 sends the request once more, and it must succeed for its own writer: what it
finds in the store is its own write.

boto3 is at its default settings: it sends the id of a call with each attempt by itself (docs/s3.md, "Retries of
conditional writes").

SHERD_ENDPOINTS names the nodes; credentials and region come from the environment, as boto3 takes them.
SHERD_LOST_INCREMENTS is how many increments there are (200).
"""

import os
import socket
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError

from steps import end, same, step

WRITES = 20
INCREMENTS = int(os.environ.get("SHERD_LOST_INCREMENTS", "200"))
WRITERS = 8


class Relay:
    """Forwards to one node; cuts every `every`th answer that tells of a conditional write's success."""

    def __init__(self, endpoint, every):
        self.to, self.every = urlsplit(endpoint), every
        self.seen = self.cut = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            node = socket.create_connection((self.to.hostname, self.to.port))
            link = {"conditional": False}
            threading.Thread(target=self.requests, args=(client, node, link), daemon=True).start()
            threading.Thread(target=self.answers, args=(client, node, link), daemon=True).start()

    def requests(self, client, node, link):
        # A head arrives whole: it is small and sent at once. Requests follow each other on a connection.
        while data := receive(client):
            head = data.partition(b"\r\n\r\n")[0].lower()
            if head.startswith((b"get ", b"head ")):
                link["conditional"] = False
            elif b"\r\nif-match:" in head or b"\r\nif-none-match:" in head:
                link["conditional"] = True
            if not send(node, data):
                break
        close(client, node)

    def answers(self, client, node, link):
        while data := receive(node):
            if link["conditional"] and data.startswith(b"HTTP/1.1 2"):
                link["conditional"] = False
                if self.is_cut():
                    break
            if not send(client, data):
                break
        close(client, node)

    def is_cut(self):
        with self.lock:
            self.seen += 1
            cut = self.seen % self.every == 0
            self.cut += cut
            return cut


def receive(stream):
    try:
        return stream.recv(1 << 16)
    except OSError:
        return b""


def send(stream, data):
    try:
        stream.sendall(data)
        return True
    except OSError:
        return False


def close(*streams):
    for stream in streams:
        try:
            stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def client(endpoint):
    return boto3.client("s3", endpoint_url=endpoint)


endpoints = os.environ["SHERD_ENDPOINTS"].split()
s3 = client(endpoints[0])
bucket = f"lost-{uuid.uuid4()}"


def each_answer_lost(write):
    """Writes through a relay that cuts the first answer to each write and lets the second one pass."""
    relay = Relay(endpoints[0], every=2)
    through = client(relay.endpoint)
    for number in range(WRITES):
        # The next success is an even one.
        relay.seen = 1
        write(through, number)
    same(relay.cut, WRITES)


def put():
    def write(through, number):
        made = through.put_object(Bucket=bucket, Key=f"put/{number}", Body=b"mine", IfNoneMatch="*")
        same(made["ETag"], s3.head_object(Bucket=bucket, Key=f"put/{number}")["ETag"])

    each_answer_lost(write)


def complete():
    def write(through, number):
        upload = {"Bucket": bucket, "Key": f"complete/{number}"}
        upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
        part = s3.upload_part(**upload, PartNumber=1, Body=b"mine")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        made = through.complete_multipart_upload(**upload, MultipartUpload=parts, IfNoneMatch="*")
        same(made["ETag"], s3.head_object(Bucket=bucket, Key=f"complete/{number}")["ETag"])

    each_answer_lost(write)


def delete():
    def write(through, number):
        etag = s3.put_object(Bucket=bucket, Key=f"delete/{number}", Body=b"mine")["ETag"]
        through.delete_object(Bucket=bucket, Key=f"delete/{number}", IfMatch=etag)

    each_answer_lost(write)
    same(s3.list_objects_v2(Bucket=bucket, Prefix="delete/")["KeyCount"], 0)


def increments():
    """Writers append to one object by If-Match through all nodes: the object lists each success once, and no refusal."""
    s3.put_object(Bucket=bucket, Key="increments", Body=b"")
    relays = [Relay(endpoint, every=10) for endpoint in endpoints]
    done, refused, lock = [], [], threading.Lock()

    def writer(number):
        through = client(relays[number % len(relays)].endpoint)
        while True:
            with lock:
                if len(done) >= INCREMENTS:
                    return
            found = through.get_object(Bucket=bucket, Key="increments")
            mine = uuid.uuid4().hex.encode()
            try:
                body = found["Body"].read() + mine + b"\n"
                through.put_object(Bucket=bucket, Key="increments", Body=body, IfMatch=found["ETag"])
                told = done
            except ClientError as error:
                same(error.response["ResponseMetadata"]["HTTPStatusCode"], 412)
                told = refused
            with lock:
                told.append(mine)

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(writer, range(WRITERS)))
    lines = s3.get_object(Bucket=bucket, Key="increments")["Body"].read().split()
    applied = [mine for mine in refused if mine in set(lines)]
    cut = sum(relay.cut for relay in relays)
    if applied:
        raise AssertionError(f"{len(applied)} of {len(lines)} were refused to their own writer, {cut} answers cut")
    same((len(lines), sorted(lines)), (len(done), sorted(done)))
    if cut < INCREMENTS // 20:
        raise AssertionError(f"only {cut} answers were cut")


def delete_bucket():
    while keys := s3.list_objects_v2(Bucket=bucket).get("Contents"):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": found["Key"]} for found in keys]})
    s3.delete_bucket(Bucket=bucket)


step("create bucket", lambda: s3.create_bucket(Bucket=bucket))
step("put", put)
step("complete", complete)
step("delete", delete)
step("increments", increments)
step("delete bucket", delete_bucket)
end()
