// The steps of e2e/clients/README.md with the AWS SDK for JavaScript v3 at its default settings.
//
// SHERD_ENDPOINT names the store; credentials and region come from the environment, as the SDK takes them.

import assert from "node:assert";
import { randomBytes, randomUUID } from "node:crypto";
import { crc32 } from "node:zlib";
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteBucketCorsCommand,
  DeleteBucketPolicyCommand,
  DeleteBucketTaggingCommand,
  DeleteObjectCommand,
  DeleteObjectTaggingCommand,
  DeleteObjectsCommand,
  DeletePublicAccessBlockCommand,
  GetBucketCorsCommand,
  GetBucketPolicyCommand,
  GetBucketPolicyStatusCommand,
  GetBucketTaggingCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  GetPublicAccessBlockCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutBucketCorsCommand,
  PutBucketPolicyCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  PutPublicAccessBlockCommand,
  S3Client,
  paginateListObjectsV2,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

// An address in place of a name has no place for the bucket but the path.
const s3 = new S3Client({ endpoint: process.env.SHERD_ENDPOINT, forcePathStyle: true });
const Bucket = `js-${randomUUID()}`;
const [small, large, empty] = [Buffer.from("small"), randomBytes(6 << 20), Buffer.alloc(0)];
let failed = 0;

// Prints one line for a step, and goes on when it fails.
async function step(name, work) {
  try {
    await work();
    console.log(`${name}\tok`);
  } catch (error) {
    failed += 1;
    console.log(`${name}\tFAILED ${`${error.name} ${error.message}`.replaceAll("\n", " ")}`);
  }
}

async function get(Key, Range) {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key, Range }));
  return Buffer.from(await Body.transformToByteArray());
}

function same(found, expected) {
  assert(found.equals(expected), `found ${found.length} bytes that are not the ${expected.length} expected`);
}

// What is refused with this status, or with this code, and by nothing else.
async function refused(expected, command) {
  await assert.rejects(
    s3.send(command),
    (error) => (typeof expected === "number" ? error.$metadata?.httpStatusCode : error.name) === expected,
  );
}

// A request by a program that knows nothing of S3.
async function http(method, url, { body, headers, status = 200 } = {}) {
  const answer = await fetch(url, { method, body, headers });
  const bytes = Buffer.from(await answer.arrayBuffer());
  assert.equal(answer.status, status, bytes.toString());
  return { headers: answer.headers, bytes };
}

async function tags(command) {
  const { TagSet } = await s3.send(command);
  return Object.fromEntries(TagSet.map(({ Key, Value }) => [Key, Value]));
}

async function tagged(Key, expected) {
  assert.deepEqual(await tags(new GetObjectTaggingCommand({ Bucket, Key })), expected);
}

await step("create bucket", () => s3.send(new CreateBucketCommand({ Bucket })));

await step("put", async () => {
  await s3.send(new PutObjectCommand({ Bucket, Key: "small", Body: small }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "large", Body: large }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "empty", Body: empty }));
});

await step("get", async () => {
  same(await get("small"), small);
  same(await get("large"), large);
  same(await get("empty"), empty);
  same(await get("large", "bytes=5-14"), large.subarray(5, 15));
});

await step("head", async () => {
  const { ContentLength } = await s3.send(new HeadObjectCommand({ Bucket, Key: "large" }));
  assert.equal(ContentLength, large.length);
  await refused(404, new HeadObjectCommand({ Bucket, Key: "missing" }));
});

await step("checksum", async () => {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(small));
  const ChecksumCRC32 = sum.toString("base64");
  await s3.send(
    new PutObjectCommand({ Bucket, Key: "checksum", Body: small, ChecksumAlgorithm: "CRC32", ChecksumCRC32 }),
  );
  const got = await s3.send(new GetObjectCommand({ Bucket, Key: "checksum", ChecksumMode: "ENABLED" }));
  same(Buffer.from(await got.Body.transformToByteArray()), small);
  assert.equal(got.ChecksumCRC32, ChecksumCRC32);
});

await step("list", async () => {
  const expected = [];
  for (let number = 0; number < 5; number += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `list/${number}/a`, Body: small }));
    expected.push(`list/${number}/`);
  }
  const found = [];
  const pages = paginateListObjectsV2({ client: s3, pageSize: 2 }, { Bucket, Prefix: "list/", Delimiter: "/" });
  for await (const page of pages) {
    found.push(...page.CommonPrefixes.map((prefix) => prefix.Prefix));
  }
  assert.deepEqual(found, expected);
});

await step("multipart", async () => {
  const body = randomBytes(20 << 20);
  await new Upload({ client: s3, params: { Bucket, Key: "multipart", Body: body, Tagging: "sent=in+parts" } }).done();
  same(await get("multipart"), body);
  await tagged("multipart", { sent: "in parts" });
});

await step("copy", async () => {
  await s3.send(new CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/large` }));
  same(await get("copy"), large);
});

await step("conditional put", async () => {
  await s3.send(new PutObjectCommand({ Bucket, Key: "once", Body: small, IfNoneMatch: "*" }));
  await refused(412, new PutObjectCommand({ Bucket, Key: "once", Body: large, IfNoneMatch: "*" }));
  same(await get("once"), small);
});

await step("tags", async () => {
  const Key = "tagged";
  await s3.send(new PutObjectCommand({ Bucket, Key, Body: small, Tagging: "kind=first&note=two%20words%2B" }));
  await tagged(Key, { kind: "first", note: "two words+" });
  const got = await s3.send(new GetObjectCommand({ Bucket, Key }));
  same(Buffer.from(await got.Body.transformToByteArray()), small);
  assert.equal(got.TagCount, 2);
  const Tagging = { TagSet: [{ Key: "kind", Value: "second" }] };
  await s3.send(new PutObjectTaggingCommand({ Bucket, Key, Tagging }));
  await tagged(Key, { kind: "second" });
  const copy = { Bucket, CopySource: `${Bucket}/${Key}` };
  await s3.send(new CopyObjectCommand({ ...copy, Key: "with its tags" }));
  await tagged("with its tags", { kind: "second" });
  const replace = { TaggingDirective: "REPLACE", Tagging: "kind=third" };
  await s3.send(new CopyObjectCommand({ ...copy, ...replace, Key: "with others" }));
  await tagged("with others", { kind: "third" });
  await s3.send(new DeleteObjectTaggingCommand({ Bucket, Key }));
  await tagged(Key, {});
});

await step("bucket tags", async () => {
  await refused("NoSuchTagSet", new GetBucketTaggingCommand({ Bucket }));
  const TagSet = [
    { Key: "kind", Value: "a bucket" },
    { Key: "cost", Value: "1" },
  ];
  await s3.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
  assert.deepEqual(await tags(new GetBucketTaggingCommand({ Bucket })), { kind: "a bucket", cost: "1" });
  await s3.send(new DeleteBucketTaggingCommand({ Bucket }));
  await refused("NoSuchTagSet", new GetBucketTaggingCommand({ Bucket }));
});

await step("cors", async () => {
  await refused("NoSuchCORSConfiguration", new GetBucketCorsCommand({ Bucket }));
  const rule = {
    ID: "pages",
    AllowedOrigins: ["http://*.test"],
    AllowedMethods: ["GET", "PUT"],
    AllowedHeaders: ["*"],
    ExposeHeaders: ["ETag"],
    MaxAgeSeconds: 300,
  };
  await s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules: [rule] } }));
  assert.deepEqual((await s3.send(new GetBucketCorsCommand({ Bucket }))).CORSRules, [rule]);
  await s3.send(new DeleteBucketCorsCommand({ Bucket }));
  await refused("NoSuchCORSConfiguration", new GetBucketCorsCommand({ Bucket }));
});

await step("policy", async () => {
  const Policy = JSON.stringify({
    Version: "2012-10-17",
    Statement: [{ Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: `arn:aws:s3:::${Bucket}/*` }],
  });
  await refused("NoSuchBucketPolicy", new GetBucketPolicyCommand({ Bucket }));
  await refused("AccessDenied", new PutBucketPolicyCommand({ Bucket, Policy }));
  const block = await s3.send(new GetPublicAccessBlockCommand({ Bucket }));
  await s3.send(new DeletePublicAccessBlockCommand({ Bucket }));
  await refused("NoSuchPublicAccessBlockConfiguration", new GetPublicAccessBlockCommand({ Bucket }));
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy }));
  assert.equal((await s3.send(new GetBucketPolicyCommand({ Bucket }))).Policy, Policy);
  assert.equal((await s3.send(new GetBucketPolicyStatusCommand({ Bucket }))).PolicyStatus.IsPublic, true);
  const { PublicAccessBlockConfiguration } = block;
  await s3.send(new PutPublicAccessBlockCommand({ Bucket, PublicAccessBlockConfiguration }));
  await s3.send(new DeleteBucketPolicyCommand({ Bucket }));
  await refused("NoSuchBucketPolicy", new GetBucketPolicyCommand({ Bucket }));
});

await step("presigned get", async () => {
  const url = await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key: "large" }));
  same((await http("GET", url)).bytes, large);
});

await step("presigned head", async () => {
  const url = await getSignedUrl(s3, new HeadObjectCommand({ Bucket, Key: "large" }));
  assert.equal((await http("HEAD", url)).headers.get("content-length"), `${large.length}`);
});

await step("presigned put", async () => {
  const url = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key: "presigned" }));
  await http("PUT", url, { body: small });
  same(await get("presigned"), small);
});

await step("presigned post", async () => {
  const { url, fields } = await createPresignedPost(s3, {
    Bucket,
    Key: "posted/${filename}",
    Conditions: [["content-length-range", 1, 10]],
    Fields: { success_action_status: "201", "x-amz-meta-sent": "by a form" },
  });
  const post = (bytes, name, status) => {
    const body = new FormData();
    Object.entries(fields).forEach(([field, value]) => body.append(field, value));
    body.append("file", new Blob([bytes]), name);
    return http("POST", url, { body, status });
  };
  const made = await post(small, "small.txt", 201);
  assert.match(made.bytes.toString(), /<Key>posted\/small\.txt<\/Key>/);
  same(await get("posted/small.txt"), small);
  const { Metadata } = await s3.send(new HeadObjectCommand({ Bucket, Key: "posted/small.txt" }));
  assert.deepEqual(Metadata, { sent: "by a form" });
  const over = await post(Buffer.alloc(11), "large.txt", 400);
  assert.match(over.bytes.toString(), /<Code>EntityTooLarge<\/Code>/);
});

await step("delete", async () => {
  await s3.send(new DeleteObjectCommand({ Bucket, Key: "small" }));
  const { Contents } = await s3.send(new ListObjectsV2Command({ Bucket }));
  const Objects = Contents.map(({ Key }) => ({ Key }));
  const { Errors } = await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  assert.equal(Errors, undefined);
  assert.equal((await s3.send(new ListObjectsV2Command({ Bucket }))).KeyCount, 0);
});

await step("delete bucket", () => s3.send(new DeleteBucketCommand({ Bucket })));
process.exitCode = failed > 0 ? 1 : 0;
