// The image SHERD_IMAGE in Testcontainers for Node: by itself, and in the place of MinIO's in its module.

import assert from "node:assert";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { MinioContainer } from "@testcontainers/minio";
import { GenericContainer, Wait } from "testcontainers";

const image = process.env.SHERD_IMAGE;

// In docs/ci.md from here.
const store = await new GenericContainer(image)
  .withEnvironment({ MINIO_ROOT_USER: "minio", MINIO_ROOT_PASSWORD: "minio123", MINIO_DEFAULT_BUCKETS: "uploads" })
  .withExposedPorts(9000)
  .withWaitStrategy(Wait.forHttp("/minio/health/ready", 9000))
  .start();
const s3 = new S3Client({
  endpoint: `http://${store.getHost()}:${store.getMappedPort(9000)}`, forcePathStyle: true, region: "us-east-1",
  credentials: { accessKeyId: "minio", secretAccessKey: "minio123" },
});
await s3.send(new PutObjectCommand({ Bucket: "uploads", Key: "hello.txt", Body: "hello" }));
const { Body } = await s3.send(new GetObjectCommand({ Bucket: "uploads", Key: "hello.txt" }));
assert.equal(await Body.transformToString(), "hello");
await store.stop();
// To here.
console.log("container\tok");

const minio = await new MinioContainer(image).withUsername("minio").withPassword("minio123").start();
const of_module = new S3Client({
  endpoint: minio.getConnectionUrl(),
  forcePathStyle: true,
  region: "us-east-1",
  credentials: { accessKeyId: minio.getUsername(), secretAccessKey: minio.getPassword() },
});
await of_module.send(new CreateBucketCommand({ Bucket: "uploads" }));
await of_module.send(new PutObjectCommand({ Bucket: "uploads", Key: "hello.txt", Body: "hello" }));
const read = await of_module.send(new GetObjectCommand({ Bucket: "uploads", Key: "hello.txt" }));
assert.equal(await read.Body.transformToString(), "hello");
await minio.stop();
console.log("module\tok");
