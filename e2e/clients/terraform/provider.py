"""The calls of Terraform's provider for AWS, as its versions 5 and 6 make them, with boto3.

The provider comes from a registry of its own that is not reachable everywhere. Each function here is one that it has for
a resource, with its calls in its order. `SHERD_ENDPOINTS` names the nodes: each call goes to another one, and what was
written must be read back at once, where the provider would try again for minutes.

Since version 6.23 the tags of a bucket are part of its creation. It reads them by S3 Control then, unless it knows no
account (`skip_requesting_account_id`): these are the calls of one that knows none. docs/s3.md, "Terraform".

Credentials and region come from the environment, as boto3 takes them.
"""

import json
import os
import uuid

from botocore.exceptions import ClientError

from steps import SETTINGS, clients, end, public, refused, same, step, tag_set, tags

nodes = clients("s3")
old, new = (f"provider-{version}-{uuid.uuid4()}" for version in (5, 6))
TAGS = {"Name": "a bucket", "cost:center": "1/2", "empty": ""}
# The reads of a refresh in its order, the member that is kept, and the code where nothing is configured.
READS = [
    ("policy", None, "NoSuchBucketPolicy"),
    ("acl", "Grants", None),
    ("cors", "CORSRules", "NoSuchCORSConfiguration"),
    ("website", None, "NoSuchWebsiteConfiguration"),
    ("versioning", "Status", None),
    ("accelerate_configuration", "Status", None),
    ("request_payment", "Payer", None),
    ("logging", "LoggingEnabled", None),
    ("lifecycle_configuration", "Rules", "NoSuchLifecycleConfiguration"),
    ("replication", None, "ReplicationConfigurationNotFoundError"),
    ("encryption", None, "ServerSideEncryptionConfigurationNotFoundError"),
]


def call(operation, **parameters):
    return getattr(next(nodes), operation)(**parameters)


def absent(code, operation, **parameters):
    """Returns the answer of a read, or None where it is refused with this code."""
    try:
        return call(operation, **parameters)
    except ClientError as error:
        same(error.response["Error"]["Code"], code)
        return None


def read_bucket(bucket):
    """`aws_s3_bucket`: a refresh."""
    found = {}
    call("head_bucket", Bucket=bucket)
    for name, member, code in READS:
        answer = absent(code, f"get_bucket_{name}", Bucket=bucket)
        found[name] = answer and answer.get(member)
    code = "ObjectLockConfigurationNotFoundError"
    found["object_lock"] = absent(code, "get_object_lock_configuration", Bucket=bucket)
    found["region"] = call("head_bucket", Bucket=bucket)["BucketRegion"]
    found["tags"] = read_tags(bucket)
    return found


def read_tags(bucket):
    found = absent("NoSuchTagSet", "get_bucket_tagging", Bucket=bucket)
    return tags(found) if found else {}


def write_tags(bucket, wanted):
    """Reads them first: it keeps those that it is told to ignore."""
    before = read_tags(bucket)
    if wanted:
        call("put_bucket_tagging", Bucket=bucket, Tagging=tag_set(wanted))
    elif before:
        call("delete_bucket_tagging", Bucket=bucket)


def is_read_back(bucket, **expected):
    """Through every node a refresh finds the bucket as it was applied: the plan is empty."""
    owner = call("list_buckets")["Owner"]["ID"]
    for _ in os.environ["SHERD_ENDPOINTS"].split():
        found = read_bucket(bucket)
        grants = [(grant["Grantee"]["ID"], grant["Permission"]) for grant in found.pop("acl")]
        same(grants, [(owner, "FULL_CONTROL")])
        left = {name: value for name, value in found.items() if value}
        always = {"request_payment": "BucketOwner", "region": os.environ["AWS_REGION"]}
        same(left, always | {name: value for name, value in expected.items() if value})


def create():
    # In us-east-1 it looks first: S3 answers 200 there for a bucket that the caller has.
    refused(404, lambda: call("head_bucket", Bucket=old))
    call("create_bucket", Bucket=old, ACL="private")
    call("head_bucket", Bucket=old)
    write_tags(old, TAGS)
    refused(404, lambda: call("head_bucket", Bucket=new))
    call("create_bucket", Bucket=new, ACL="private", CreateBucketConfiguration={"Tags": tag_set(TAGS)["TagSet"]})
    call("head_bucket", Bucket=new)
    for bucket in (old, new):
        is_read_back(bucket, tags=TAGS)


def write_cors(bucket, rules):
    """`aws_s3_bucket_cors_configuration`"""
    call("put_bucket_cors", Bucket=bucket, CORSConfiguration={"CORSRules": rules})
    same(call("get_bucket_cors", Bucket=bucket)["CORSRules"], rules)


def cors():
    rules = [
        {
            "ID": "pages",
            "AllowedHeaders": ["*"],
            "AllowedMethods": ["PUT", "POST"],
            "AllowedOrigins": ["https://*.example.com", "https://example.com"],
            "ExposeHeaders": ["ETag", "x-amz-meta-sent"],
            "MaxAgeSeconds": 3000,
        },
        # It sends 0 seconds where the configuration has none.
        {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], "MaxAgeSeconds": 0},
    ]
    write_cors(new, rules)
    is_read_back(new, tags=TAGS, cors=rules)
    write_cors(new, rules[1:])
    is_read_back(new, tags=TAGS, cors=rules[1:])
    # A hundred rules are some 20 KiB.
    most = [rules[0] | {"ID": f"rule {number}"} for number in range(100)]
    write_cors(new, most)
    is_read_back(new, tags=TAGS, cors=most)


def write_policy(bucket, document):
    """`aws_s3_bucket_policy`: it compares what it reads by its meaning."""
    text = json.dumps(document)
    call("put_bucket_policy", Bucket=bucket, Policy=text)
    for _ in os.environ["SHERD_ENDPOINTS"].split():
        same(json.loads(call("get_bucket_policy", Bucket=bucket)["Policy"]), document)


def write_block(bucket, **settings):
    """`aws_s3_bucket_public_access_block`"""
    block = {name: settings.get(name, False) for name in SETTINGS}
    call("put_public_access_block", Bucket=bucket, PublicAccessBlockConfiguration=block)
    for _ in os.environ["SHERD_ENDPOINTS"].split():
        same(call("get_public_access_block", Bucket=bucket)["PublicAccessBlockConfiguration"], block)


def policy():
    refused("AccessDenied", lambda: call("put_bucket_policy", Bucket=new, Policy=json.dumps(public(new))))
    write_block(new, BlockPublicAcls=True, IgnorePublicAcls=True)
    write_policy(new, public(new))
    # Another statement, so that the policy is longer than what a bucket's record holds itself.
    more = public(new)
    more["Statement"] += [
        {
            "Sid": f"Deny{number}",
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": ["s3:PutObject", "s3:DeleteObject"],
            "Resource": f"arn:aws:s3:::{new}/{number}/*",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        for number in range(20)
    ]
    write_policy(new, more)
    write_block(new, **dict.fromkeys(SETTINGS, True))
    call("delete_bucket_policy", Bucket=new)
    for _ in os.environ["SHERD_ENDPOINTS"].split():
        refused("NoSuchBucketPolicy", lambda: call("get_bucket_policy", Bucket=new))
    call("delete_public_access_block", Bucket=new)
    missing = "NoSuchPublicAccessBlockConfiguration"
    for _ in os.environ["SHERD_ENDPOINTS"].split():
        refused(missing, lambda: call("get_public_access_block", Bucket=new))


def bucket_tags():
    write_tags(old, {"Name": "another"})
    is_read_back(old, tags={"Name": "another"})
    write_tags(old, {})
    is_read_back(old)


def object_tags():
    """`aws_s3_object`"""
    name = {"Bucket": new, "Key": "a key"}
    call("put_object", **name, Body=b"small", ContentType="text/plain", Tagging="Name=an%20object&empty=")
    call("head_object", **name, ChecksumMode="ENABLED")
    same(tags(call("get_object_tagging", **name)), {"Name": "an object", "empty": ""})
    call("put_object_tagging", **name, Tagging=tag_set({"Name": "another"}))
    same(tags(call("get_object_tagging", **name)), {"Name": "another"})
    same(call("get_object", **name)["TagCount"], 1)


def destroy():
    call("delete_bucket_cors", Bucket=new)
    refused("NoSuchCORSConfiguration", lambda: call("get_bucket_cors", Bucket=new))
    # With `force_destroy`.
    call("put_object", Bucket=new, Key="another key", Body=b"small")
    refused("BucketNotEmpty", lambda: call("delete_bucket", Bucket=new))
    versions = call("list_object_versions", Bucket=new)["Versions"]
    objects = [{"Key": version["Key"], "VersionId": version["VersionId"]} for version in versions]
    deleted = call("delete_objects", Bucket=new, Delete={"Objects": objects, "Quiet": True})
    same(deleted.get("Errors"), None)
    for bucket in (old, new):
        call("delete_bucket", Bucket=bucket)
        for _ in os.environ["SHERD_ENDPOINTS"].split():
            refused(404, lambda: call("head_bucket", Bucket=bucket))


step("create bucket", create)
step("cors", cors)
step("policy", policy)
step("bucket tags", bucket_tags)
step("tags", object_tags)
step("delete bucket", destroy)
end()
