"""The steps of e2e/clients/README.md with boto3 at its default settings.

SHERD_ENDPOINT names the store; credentials and region come from the environment, as boto3 takes them.
"""

import json
import os
import re
import socket
import tempfile
import uuid
import zlib
from base64 import b64encode
from unittest.mock import patch

import boto3

from steps import SETTINGS, end, form, http, public, refused, same, skipped, step, tag_set, tags
from users import of_users

s3 = boto3.client("s3", endpoint_url=os.environ["SHERD_ENDPOINT"])
bucket = f"python-{uuid.uuid4()}"
small, large, empty = b"small", os.urandom(6 << 20), b""


def get(key):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def object_tags(key):
    return tags(s3.get_object_tagging(Bucket=bucket, Key=key))


def put():
    s3.put_object(Bucket=bucket, Key="small", Body=small)
    s3.put_object(Bucket=bucket, Key="large", Body=large)
    s3.put_object(Bucket=bucket, Key="empty", Body=empty)


def get_all():
    same(get("small"), small)
    same(get("large"), large)
    same(get("empty"), empty)
    same(s3.get_object(Bucket=bucket, Key="large", Range="bytes=5-14")["Body"].read(), large[5:15])


def head():
    same(s3.head_object(Bucket=bucket, Key="large")["ContentLength"], len(large))
    refused(404, lambda: s3.head_object(Bucket=bucket, Key="missing"))


def checksum():
    crc32 = b64encode(zlib.crc32(small).to_bytes(4, "big")).decode()
    s3.put_object(Bucket=bucket, Key="checksum", Body=small, ChecksumAlgorithm="CRC32", ChecksumCRC32=crc32)
    same(s3.get_object(Bucket=bucket, Key="checksum", ChecksumMode="ENABLED")["ChecksumCRC32"], crc32)


def list_pages():
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"list/{number}/a", Body=small)
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix="list/", Delimiter="/", PaginationConfig={"PageSize": 2}
    )
    found = [prefix["Prefix"] for page in pages for prefix in page["CommonPrefixes"]]
    same(found, [f"list/{number}/" for number in range(5)])


def multipart():
    body = os.urandom(20 << 20)
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        s3.upload_file(file.name, bucket, "multipart", ExtraArgs={"Tagging": "sent=in+parts"})
        file.truncate(0)
        s3.download_file(bucket, "multipart", file.name)
        with open(file.name, "rb") as back:
            same(back.read(), body)
    same(object_tags("multipart"), {"sent": "in parts"})


def copy():
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "large"})
    same(get("copy"), large)


def conditional_put():
    s3.put_object(Bucket=bucket, Key="once", Body=small, IfNoneMatch="*")
    refused(412, lambda: s3.put_object(Bucket=bucket, Key="once", Body=large, IfNoneMatch="*"))
    same(get("once"), small)


def object_tagging():
    s3.put_object(Bucket=bucket, Key="tagged", Body=small, Tagging="kind=first&note=two%20words%2B")
    same(object_tags("tagged"), {"kind": "first", "note": "two words+"})
    same(s3.get_object(Bucket=bucket, Key="tagged")["TagCount"], 2)
    s3.put_object_tagging(Bucket=bucket, Key="tagged", Tagging=tag_set({"kind": "second"}))
    same(object_tags("tagged"), {"kind": "second"})
    source = {"Bucket": bucket, "Key": "tagged"}
    s3.copy_object(Bucket=bucket, Key="with its tags", CopySource=source)
    same(object_tags("with its tags"), {"kind": "second"})
    s3.copy_object(Bucket=bucket, Key="with others", CopySource=source, TaggingDirective="REPLACE", Tagging="kind=third")
    same(object_tags("with others"), {"kind": "third"})
    s3.delete_object_tagging(Bucket=bucket, Key="tagged")
    same(object_tags("tagged"), {})
    same(get("tagged"), small)


def bucket_tagging():
    refused("NoSuchTagSet", lambda: s3.get_bucket_tagging(Bucket=bucket))
    s3.put_bucket_tagging(Bucket=bucket, Tagging=tag_set({"kind": "a bucket", "cost": "1"}))
    same(tags(s3.get_bucket_tagging(Bucket=bucket)), {"kind": "a bucket", "cost": "1"})
    s3.delete_bucket_tagging(Bucket=bucket)
    refused("NoSuchTagSet", lambda: s3.get_bucket_tagging(Bucket=bucket))


def cors():
    refused("NoSuchCORSConfiguration", lambda: s3.get_bucket_cors(Bucket=bucket))
    rule = {
        "ID": "pages",
        "AllowedOrigins": ["http://*.test"],
        "AllowedMethods": ["GET", "PUT"],
        "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 300,
    }
    s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    same(s3.get_bucket_cors(Bucket=bucket)["CORSRules"], [rule])
    preflight = {"Origin": "http://a.test", "Access-Control-Request-Method": "PUT"}
    url = f"{os.environ['SHERD_ENDPOINT']}/{bucket}/key"
    same(http("OPTIONS", url, headers=preflight)[0]["Access-Control-Allow-Origin"], "http://a.test")
    s3.delete_bucket_cors(Bucket=bucket)
    refused("NoSuchCORSConfiguration", lambda: s3.get_bucket_cors(Bucket=bucket))
    http("OPTIONS", url, headers=preflight, status=403)


def policy():
    name = {"Bucket": bucket}
    everyone = json.dumps(public(bucket), indent=2)
    refused("NoSuchBucketPolicy", lambda: s3.get_bucket_policy(**name))
    block = s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"]
    same(set(block.values()), {True})
    refused("AccessDenied", lambda: s3.put_bucket_policy(**name, Policy=everyone))
    open_to_all = block | {"BlockPublicPolicy": False, "RestrictPublicBuckets": False}
    s3.put_public_access_block(**name, PublicAccessBlockConfiguration=open_to_all)
    same(s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"], open_to_all)
    url = f"{os.environ['SHERD_ENDPOINT']}/{bucket}/large"
    http("GET", url, status=403)
    s3.put_bucket_policy(**name, Policy=everyone)
    same(s3.get_bucket_policy(**name)["Policy"], everyone)
    same(s3.get_bucket_policy_status(**name)["PolicyStatus"], {"IsPublic": True})
    same(http("GET", url)[1], large)
    s3.put_public_access_block(**name, PublicAccessBlockConfiguration=block)
    http("GET", url, status=403)
    s3.delete_bucket_policy(**name)
    refused("NoSuchBucketPolicy", lambda: s3.get_bucket_policy_status(**name))
    s3.delete_public_access_block(**name)
    refused("NoSuchPublicAccessBlockConfiguration", lambda: s3.get_public_access_block(**name))
    s3.put_public_access_block(**name, PublicAccessBlockConfiguration=block)


def account_block():
    account = {"AccountId": "000000000001"}
    control = boto3.client("s3control", endpoint_url=os.environ["SHERD_ENDPOINT"])
    missing = "NoSuchPublicAccessBlockConfiguration"
    refused(missing, lambda: control.get_public_access_block(**account))
    block = {name: name.startswith("Block") for name in SETTINGS}
    control.put_public_access_block(**account, PublicAccessBlockConfiguration=block)
    try:
        same(control.get_public_access_block(**account)["PublicAccessBlockConfiguration"], block)
        refused("AccessDenied", lambda: control.get_public_access_block(AccountId="111122223333"))
    finally:
        # It would refuse the public policies of other clients.
        control.delete_public_access_block(**account)
    refused(missing, lambda: control.get_public_access_block(**account))


def resolves_account(host, *rest, resolve=socket.getaddrinfo, **named):
    """The client puts the account's number before the host: a name that has to be there."""
    return resolve(re.sub(r"^[0-9]{12}\.", "", host), *rest, **named)


def presigned_get():
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "large"})
    same(http("GET", url)[1], large)


def presigned_head():
    url = s3.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "large"})
    head, body = http("HEAD", url)
    same((head["Content-Length"], body), (str(len(large)), b""))


def presigned_put():
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "presigned"})
    http("PUT", url, small)
    same(get("presigned"), small)


def presigned_post():
    fields = {"success_action_status": "201", "x-amz-meta-sent": "by a form"}
    conditions = [{field: value} for field, value in fields.items()] + [["content-length-range", 1, 10]]
    post = s3.generate_presigned_post(bucket, "posted/${filename}", Fields=fields, Conditions=conditions)
    kind, body = form(post["fields"], small, "small.txt")
    same(b"<Key>posted/small.txt</Key>" in http("POST", post["url"], body, {"Content-Type": kind}, 201)[1], True)
    found = s3.get_object(Bucket=bucket, Key="posted/small.txt")
    same((found["Body"].read(), found["Metadata"]), (small, {"sent": "by a form"}))
    kind, body = form(post["fields"], b"eleven byte", "large.txt")
    same(b"<Code>EntityTooLarge</Code>" in http("POST", post["url"], body, {"Content-Type": kind}, 400)[1], True)


def delete():
    s3.delete_object(Bucket=bucket, Key="small")
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    same(deleted.get("Errors"), None)
    same(s3.list_objects_v2(Bucket=bucket)["KeyCount"], 0)


step("create bucket", lambda: s3.create_bucket(Bucket=bucket))
step("put", put)
step("get", get_all)
step("head", head)
step("checksum", checksum)
step("list", list_pages)
step("multipart", multipart)
step("copy", copy)
step("conditional put", conditional_put)
step("tags", object_tagging)
step("bucket tags", bucket_tagging)
step("cors", cors)
step("policy", policy)
with patch("socket.getaddrinfo", resolves_account):
    step("account block", account_block)
if os.environ.get("SHERD_IAM_ENDPOINTS"):
    step("users", lambda: of_users(bucket, "large", large))
else:
    skipped("users", "no address for IAM")
step("presigned get", presigned_get)
step("presigned head", presigned_head)
step("presigned put", presigned_put)
step("presigned post", presigned_post)
step("delete", delete)
step("delete bucket", lambda: s3.delete_bucket(Bucket=bucket))
end()
