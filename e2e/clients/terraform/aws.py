"""Terraform's own provider for AWS: users with keys, groups and policies, and a bucket that everyone may read.

SHERD_TERRAFORM_PLUGINS names a folder of providers as `terraform init -plugin-dir` takes it, where no registry is
reached. Plans are made through another node than changes: what was applied is read back there at once, and the plan is
empty. Credentials and region come from the environment, as Terraform takes them.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import uuid

from steps import clients, end, http, refused, same, step

PLAN_EMPTY, PLAN_CHANGES = 0, 2
here = os.path.dirname(os.path.abspath(__file__))
name = f"hashicorp-{uuid.uuid4()}"
nodes = list(zip(os.environ["SHERD_ENDPOINTS"].split(), os.environ["SHERD_IAM_ENDPOINTS"].split()))
following = itertools.cycle(nodes)
CLOSED = {"actions": '["s3:GetObject"]', "path": "/apps/", "open": "false"}
OPEN = {"actions": '["s3:GetObject","s3:PutObject","s3:DeleteObject"]', "path": "/team/apps/", "open": "true"}


def terraform(*arguments, status=0):
    ran = subprocess.run(["terraform", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ran.returncode != status:
        raise AssertionError(f"terraform {arguments} ended with {ran.returncode}: {ran.stdout[-1500:]} {ran.stderr[-1500:]}")
    return ran.stdout


def run(what, variables, status=0):
    """Through the node after the one of the run before."""
    s3, iam = next(following)
    given = variables | {"s3": s3, "iam": iam, "name": name}
    named = [f"-var={key}={value}" for key, value in given.items()]
    return terraform(*what, "-no-color", *named, status=status)


def apply(variables):
    run(["apply", "-auto-approve"], variables)
    plan(variables, PLAN_EMPTY)


def plan(variables, status):
    run(["plan", "-detailed-exitcode"], variables, status)


def output():
    return {key: found["value"] for key, found in json.loads(terraform("output", "-json")).items()}


def create():
    apply(CLOSED)
    same(output()["root"], "arn:aws:iam::000000000001:root")


def key():
    """The key that it made, through each node."""
    found = output()["key"]
    s3, sts = clients("s3", **found), clients("sts", **found)
    page = {"Bucket": name, "Key": "public/page"}
    for url, _ in nodes:
        same(next(sts).get_caller_identity()["Arn"], f"arn:aws:iam::000000000001:user/apps/ada-{name}")
        same(next(s3).get_object(**page)["Body"].read(), b"a page")
        same(next(s3).list_objects_v2(Bucket=name)["KeyCount"], 1)
        refused("AccessDenied", lambda: next(s3).put_object(**page, Body=b""))
        refused("AccessDenied", lambda: next(s3).list_buckets())
        http("GET", f"{url}/{name}/public/page", status=403)


def policy():
    """Other policies, paths, tags and a bucket for everyone, and back."""
    plan(OPEN, PLAN_CHANGES)
    apply(OPEN)
    s3 = clients("s3", **output()["key"])
    written = {"Bucket": name, "Key": "written"}
    for url, _ in nodes:
        same(http("GET", f"{url}/{name}/public/page")[1], b"a page")
        http("GET", f"{url}/{name}/written", status=403)
        next(s3).put_object(**written, Body=b"small")
        refused("AccessDenied", lambda: next(s3).delete_object(**written))
    apply(CLOSED)
    for url, _ in nodes:
        http("GET", f"{url}/{name}/public/page", status=403)
        refused("AccessDenied", lambda: next(s3).put_object(**written, Body=b"small"))


def imports():
    """Another state takes over what there is, and plans no change."""
    policy, group = f"arn:aws:iam::000000000001:policy/app/lists-{name}", f"readers-{name}"
    taken = {
        "aws_iam_user.ada": f"ada-{name}",
        "aws_iam_user_policy.ada": f"ada-{name}:own",
        "aws_iam_user_policy_attachment.ada": f"ada-{name}/{policy}",
        "aws_iam_policy.lists": policy,
        "aws_iam_group.readers": group,
        "aws_iam_group_policy.readers": f"{group}:own",
        "aws_iam_group_policy_attachment.readers": f"{group}/{policy}",
        "aws_iam_user_group_membership.ada": f"ada-{name}/{group}",
        "aws_s3_bucket_public_access_block.site": name,
        "aws_s3_bucket_ownership_controls.site": name,
    }
    terraform("state", "rm", *taken)
    with open("import.tf", "w") as file:
        file.writelines(f'import {{\n  to = {to}\n  id = "{of}"\n}}\n' for to, of in taken.items())
    # `force_destroy` is of the state alone: the plan is one change, to no call.
    said = run(["apply", "-auto-approve"], CLOSED)
    counts = re.findall(r"Resources: (.*)", said)
    same(counts, [f"{len(taken)} imported, 0 added, 1 changed, 0 destroyed."])
    os.remove("import.tf")
    plan(CLOSED, PLAN_EMPTY)


def destroy():
    run(["destroy", "-auto-approve"], CLOSED)
    same(json.loads(terraform("show", "-json")).get("values"), None)
    s3, iam = clients("s3"), clients("iam")
    for _ in nodes:
        refused(404, lambda: next(s3).head_bucket(Bucket=name))
        refused("NoSuchEntity", lambda: next(iam).get_user(UserName=f"ada-{name}"))
        refused("NoSuchEntity", lambda: next(iam).get_group(GroupName=f"readers-{name}"))
        same(next(iam).list_policies(Scope="Local", PathPrefix="/app/")["Policies"], [])


with tempfile.TemporaryDirectory() as folder:
    shutil.copy(os.path.join(here, "aws", "main.tf"), folder)
    os.chdir(folder)
    os.environ |= {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    plugins = os.environ.get("SHERD_TERRAFORM_PLUGINS")
    terraform("init", *([f"-plugin-dir={plugins}"] if plugins else []))
    step("create bucket", create)
    step("users", key)
    step("policy", policy)
    step("import", imports)
    step("delete bucket", destroy)
    os.chdir(here)
end()
