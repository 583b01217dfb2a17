"""Users, keys, groups and policies with boto3: what one has a right to, and that it ends through every node at once.

SHERD_IAM_ENDPOINTS names the nodes' addresses for IAM, in the order of those for S3 in SHERD_ENDPOINTS. Each call goes
to another node than the one before, and nothing is waited for: a change holds when it is answered.
"""

import json
import os
import uuid

from steps import clients, http, policy_of, refused, same


def of_users(bucket, key, body):
    """A user's way from its first key to its deletion. `key` is an object of the bucket, with this body."""
    iam = clients("iam")
    ada, readers, policy = (f"{name}-{uuid.uuid4()}" for name in ("ada", "readers", "writes"))
    user, group = {"UserName": ada}, {"GroupName": readers}
    objects = f"arn:aws:s3:::{bucket}/*"
    found = next(iam).create_user(**user, Path="/team/", Tags=[{"Key": "of", "Value": "team=a/b: c+d@e_f.g"}])["User"]
    same(found["Arn"], f"arn:aws:iam::000000000001:user/team/{ada}")
    same(next(iam).get_user(**user)["User"]["Tags"], [{"Key": "of", "Value": "team=a/b: c+d@e_f.g"}])
    refused("EntityAlreadyExists", lambda: next(iam).create_user(UserName=ada.upper()))
    secret = next(iam).create_access_key(**user)["AccessKey"]
    own = {"aws_access_key_id": secret["AccessKeyId"], "aws_secret_access_key": secret["SecretAccessKey"]}
    s3, sts = clients("s3", **own), clients("sts", **own)
    same(next(sts).get_caller_identity()["Arn"], found["Arn"])
    nodes = range(len(os.environ["SHERD_ENDPOINTS"].split()))

    def reads():
        for _ in nodes:
            same(next(s3).get_object(Bucket=bucket, Key=key)["Body"].read(), body)

    def may_not(code="AccessDenied", work=lambda: next(s3).get_object(Bucket=bucket, Key=key)):
        for _ in nodes:
            refused(code, work)

    def writes():
        for _ in nodes:
            next(s3).put_object(Bucket=bucket, Key="written", Body=body)

    may_not()
    refused("MalformedPolicyDocument", lambda: next(iam).put_user_policy(**user, PolicyName="reads", PolicyDocument="{"))
    document = policy_of("s3:GetObject", objects)
    next(iam).put_user_policy(**user, PolicyName="reads", PolicyDocument=json.dumps(document))
    same(next(iam).get_user_policy(**user, PolicyName="reads")["PolicyDocument"], document)
    reads()
    may_not(work=lambda: next(s3).put_object(Bucket=bucket, Key="written", Body=body))
    may_not(work=lambda: next(s3).list_objects_v2(Bucket=bucket))
    may_not(work=lambda: next(s3).get_bucket_policy(Bucket=bucket))

    next(iam).create_group(**group)
    arn = next(iam).create_policy(PolicyName=policy, PolicyDocument=json.dumps(policy_of("s3:PutObject", objects)))
    arn = arn["Policy"]["Arn"]
    next(iam).attach_group_policy(**group, PolicyArn=arn)
    next(iam).add_user_to_group(**group, **user)
    writes()
    # The next version of the policy in force allows another action.
    next(iam).create_policy_version(
        PolicyArn=arn, PolicyDocument=json.dumps(policy_of("s3:ListBucket", objects[:-2])), SetAsDefault=True
    )
    may_not(work=lambda: next(s3).put_object(Bucket=bucket, Key="written", Body=body))
    same(next(s3).list_objects_v2(Bucket=bucket, Prefix=key)["Contents"][0]["Key"], key)
    next(iam).set_default_policy_version(PolicyArn=arn, VersionId="v1")
    writes()
    next(iam).attach_user_policy(**user, PolicyArn=arn)
    next(iam).remove_user_from_group(**group, **user)
    writes()
    next(iam).detach_user_policy(**user, PolicyArn=arn)
    may_not(work=lambda: next(s3).put_object(Bucket=bucket, Key="written", Body=body))

    url = next(s3).generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key})
    same(http("GET", url)[1], body)
    for status, code in ("Inactive", "InvalidAccessKeyId"), ("Active", None):
        next(iam).update_access_key(**user, AccessKeyId=secret["AccessKeyId"], Status=status)
        if code:
            may_not(code)
            http("GET", url, status=403)
            refused("InvalidClientTokenId", lambda: next(sts).get_caller_identity())
    reads()
    next(iam).put_user_policy(
        **user, PolicyName="refuses", PolicyDocument=json.dumps(policy_of("s3:*", objects, effect="Deny"))
    )
    may_not()

    refused("DeleteConflict", lambda: next(iam).delete_user(**user))
    refused("DeleteConflict", lambda: next(iam).delete_group(**group))
    for name in "reads", "refuses":
        next(iam).delete_user_policy(**user, PolicyName=name)
    pages = next(iam).get_paginator("list_users").paginate(PathPrefix="/team/", PaginationConfig={"PageSize": 1})
    same(ada in [found["UserName"] for page in pages for found in page["Users"]], True)
    next(iam).delete_access_key(**user, AccessKeyId=secret["AccessKeyId"])
    may_not("InvalidAccessKeyId")
    next(iam).delete_user(**user)
    next(iam).detach_group_policy(**group, PolicyArn=arn)
    next(iam).delete_policy_version(PolicyArn=arn, VersionId="v2")
    next(iam).delete_policy(PolicyArn=arn)
    next(iam).delete_group(**group)
    for _ in nodes:
        refused("NoSuchEntity", lambda: next(iam).get_user(**user))
