"""A page in headless Chromium that sends to the store and reads from it across origins.

Serves page.html from a port of its own, which is another origin than the store's, signs the page's requests with boto3,
and compares afterwards what the store holds. README.md lists the steps.

SHERD_ENDPOINT names the store; credentials and region come from the environment, as boto3 takes them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue

import boto3
from botocore.config import Config

from steps import end, refused, same, step

PROGRAMS = ["chromium", "chromium-headless-shell", "google-chrome"]
STEPS = ["form", "form by fetch", "put by fetch", "without a rule", "error by fetch"]
here = os.path.dirname(os.path.abspath(__file__))
# By default boto3 signs URLs and forms by Signature Version 2, which python/client.py sends.
s3 = boto3.client("s3", endpoint_url=os.environ["SHERD_ENDPOINT"], config=Config(signature_version="s3v4"))
bucket, other = f"browser-{uuid.uuid4()}", f"browser-other-{uuid.uuid4()}"
given = {}
outcomes = Queue()


class Pages(BaseHTTPRequestHandler):
    """Serves the page, its signed requests, and the target of the redirect."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/":
            with open(os.path.join(here, "page.html"), "rb") as page:
                self.answer("text/html; charset=utf-8", page.read())
        elif path == "/given":
            self.answer("application/json", json.dumps(given).encode())
        else:
            self.answer("text/html; charset=utf-8", b"<!doctype html>")

    def do_POST(self):
        outcomes.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("text/plain", b"")

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def signed(operation, key, name=bucket, **parameters):
    return s3.generate_presigned_url(operation, Params={"Bucket": name, "Key": key, **parameters})


def form(key, **fields):
    conditions = [{field: value} for field, value in fields.items()]
    conditions += [["content-length-range", 1, 10], ["starts-with", "$Content-Type", "text/"]]
    post = s3.generate_presigned_post(bucket, key, Fields=fields | {"Content-Type": "text/plain"}, Conditions=conditions)
    return {"url": post["url"], "fields": post["fields"]}


def create(origin):
    for name in (bucket, other):
        s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=other, Key="small", Body=b"small")
    rule = {
        "AllowedOrigins": [origin],
        "AllowedMethods": ["GET", "HEAD", "PUT", "POST"],
        "AllowedHeaders": ["content-type", "x-amz-meta-*"],
        "ExposeHeaders": ["ETag", "x-amz-meta-sent"],
        "MaxAgeSeconds": 300,
    }
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    given.update(
        bucket=bucket,
        etag=f'"{md5(b"small").hexdigest()}"',
        redirected=form("redirected/${filename}", success_action_redirect=f"{origin}/stored"),
        created=form("created/${filename}", success_action_status="201"),
        put=signed("put_object", "put", ContentType="text/plain", Metadata={"sent": "by a page"}),
        get=signed("get_object", "put"),
        head=signed("head_object", "put"),
        delete=signed("delete_object", "put"),
        other={"get": signed("get_object", "small", other), "put": signed("put_object", "put", other)},
    )


def outcome(browser, name):
    """Waits for the outcome of this step."""
    try:
        found = outcomes.get(timeout=60)
    except Empty:
        raise AssertionError(f"the page did not reach it; the browser's status is {browser.poll()}") from None
    same((found["name"], found["why"]), (name, ""))


def stored():
    """The store holds what the page has sent, and nothing else."""
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    same(keys, ["created/a b.txt", "put", "redirected/ü 1.txt"])
    for key in keys:
        found = s3.get_object(Bucket=bucket, Key=key)
        same((found["Body"].read(), found["ContentType"]), (b"small", "text/plain"))
    refused(404, lambda: s3.head_object(Bucket=other, Key="put"))


def delete(name):
    for found in s3.list_objects_v2(Bucket=name).get("Contents", []):
        s3.delete_object(Bucket=name, Key=found["Key"])
    s3.delete_bucket(Bucket=name)


def main():
    pages = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{pages.server_port}"
    step("create bucket", lambda: create(origin))
    program = next(filter(None, map(shutil.which, PROGRAMS)))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # A port for debuggers keeps it running when the page is loaded. Its sandbox needs another user than root.
        settings = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
        browser = subprocess.Popen(
            [program, *settings, f"--user-data-dir={profile}", origin], stdout=sys.stderr, stderr=sys.stderr
        )
        try:
            for name in STEPS:
                step(name, lambda name=name: outcome(browser, name))
        finally:
            browser.terminate()
            browser.wait()
    step("stored", stored)
    step("delete bucket", lambda: [delete(name) for name in (bucket, other)])
    end()


main()
