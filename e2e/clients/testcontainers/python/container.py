"""The image SHERD_IMAGE in Testcontainers for Python: by itself, and in the place of MinIO's in its module."""

import io
import os

import boto3
from testcontainers.community.minio import MinioContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

image = os.environ["SHERD_IMAGE"]

# In docs/ci.md from here.
with (
    DockerContainer(image)
    .with_envs(MINIO_ROOT_USER="minio", MINIO_ROOT_PASSWORD="minio123", MINIO_DEFAULT_BUCKETS="uploads")
    .with_exposed_ports(9000)
    .waiting_for(HttpWaitStrategy(9000, "/minio/health/ready")) as store
):
    s3 = boto3.client(
        "s3", endpoint_url=f"http://{store.get_container_host_ip()}:{store.get_exposed_port(9000)}",
        region_name="us-east-1", aws_access_key_id="minio", aws_secret_access_key="minio123",
    )
    s3.put_object(Bucket="uploads", Key="hello.txt", Body=b"hello")
    assert s3.get_object(Bucket="uploads", Key="hello.txt")["Body"].read() == b"hello"
# To here.
print("container\tok", flush=True)

with MinioContainer(image) as store:
    minio = store.get_client()
    minio.make_bucket("uploads")
    minio.put_object("uploads", "hello.txt", io.BytesIO(b"hello"), 5)
    assert minio.get_object("uploads", "hello.txt").data == b"hello"
print("module\tok", flush=True)
