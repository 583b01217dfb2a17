"""Terraform, with its state in the store: written, read back, locked by a conditional write, and in a second workspace.

SHERD_ENDPOINT names the store; credentials and region come from the environment, as Terraform takes them.
"""

import json
import os
import shutil
import subprocess
import tempfile
import uuid

import boto3

from steps import end, same, step

ENDPOINT = os.environ["SHERD_ENDPOINT"]
PLAN_EMPTY, PLAN_CHANGES = 0, 2
here = os.path.dirname(os.path.abspath(__file__))
s3 = boto3.client("s3", endpoint_url=ENDPOINT)
bucket = f"terraform-{uuid.uuid4()}"


def terraform(*arguments, status=0):
    """Runs it in the folder that this program stands in. Returns what it printed."""
    ran = subprocess.run(
        ["terraform", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode != status:
        raise AssertionError(f"terraform {arguments} ended with {ran.returncode}: {ran.stdout}")
    return ran.stdout


def apply(held, status=0):
    return terraform("apply", "-auto-approve", "-no-color", f"-var=held={held}", status=status)


def plan(held, status):
    terraform("plan", "-detailed-exitcode", f"-var=held={held}", status=status)


def state():
    read = json.loads(s3.get_object(Bucket=bucket, Key="a/state")["Body"].read())
    return [resource["instances"][0]["attributes"]["output"]["value"] for resource in read["resources"]]


def keeps():
    terraform("init", f"-backend-config=bucket={bucket}", f'-backend-config=endpoints={{s3="{ENDPOINT}"}}')
    apply("first")
    same(state(), ["first"])
    plan("first", PLAN_EMPTY)
    plan("second", PLAN_CHANGES)
    apply("second")
    same(state(), ["second"])
    plan("second", PLAN_EMPTY)


def locks():
    """The lock is an object that is written where there is none."""
    lock = {"ID": str(uuid.uuid4()), "Operation": "", "Info": "", "Who": "", "Version": "", "Path": "a/state"}
    lock["Created"] = "2026-01-01T00:00:00Z"
    s3.put_object(Bucket=bucket, Key="a/state.tflock", Body=json.dumps(lock))
    refusal = apply("third", status=1)
    same("Error acquiring the state lock" in refusal and lock["ID"] in refusal, True)
    same(state(), ["second"])
    terraform("force-unlock", "-force", lock["ID"])
    apply("third")
    same(state(), ["third"])


def workspaces():
    terraform("workspace", "new", "other")
    apply("elsewhere")
    same(terraform("workspace", "list").split(), ["default", "*", "other"])
    terraform("destroy", "-auto-approve", "-var=held=")
    terraform("workspace", "select", "default")
    terraform("workspace", "delete", "other")
    same(terraform("workspace", "list").split(), ["*", "default"])
    same(state(), ["third"])


def destroy():
    terraform("destroy", "-auto-approve", "-var=held=")
    same(state(), [])
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    same(keys, ["a/state"])
    s3.delete_object(Bucket=bucket, Key="a/state")


with tempfile.TemporaryDirectory() as folder:
    shutil.copy(os.path.join(here, "main.tf"), folder)
    os.chdir(folder)
    os.environ |= {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    step("create bucket", lambda: s3.create_bucket(Bucket=bucket))
    step("state", keeps)
    step("lock", locks)
    step("workspaces", workspaces)
    step("delete", destroy)
    os.chdir(here)
step("delete bucket", lambda: s3.delete_bucket(Bucket=bucket))
end()
