// The steps of e2e/clients/README.md with the AWS SDK for Java v2 at its default settings: its synchronous
// client, and its asynchronous one for what is large and for the step of that name.
//
// SHERD_ENDPOINT names the store; credentials and region come from the environment, as the SDK takes them.

import java.io.IOException;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.CORSRule;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.CommonPrefix;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.S3Object;
import software.amazon.awssdk.services.s3.model.Tag;
import software.amazon.awssdk.services.s3.model.TaggingDirective;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;
import software.amazon.awssdk.transfer.s3.S3TransferManager;

/** Puts, reads and deletes with every kind of client that the SDK has. */
public final class Client {
  private static final URI ENDPOINT = URI.create(System.getenv("SHERD_ENDPOINT"));
  private static final Random RANDOM = new Random();
  private static final String BUCKET = "java-" + UUID.randomUUID();
  private static final byte[] SMALL = "small".getBytes();
  private static final byte[] LARGE = random(6 << 20);
  private static final byte[] EMPTY = {};

  // An address in place of a name has no place for the bucket but the path.
  private static final S3Client s3 = S3Client.builder().endpointOverride(ENDPOINT).forcePathStyle(true).build();
  private static final S3AsyncClient async =
      S3AsyncClient.builder().endpointOverride(ENDPOINT).forcePathStyle(true).build();
  private static final S3Presigner presigner =
      S3Presigner.builder()
          .endpointOverride(ENDPOINT)
          .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build())
          .build();
  private static boolean failed;

  private interface Work {
    void run() throws Exception;
  }

  /** Prints one line for a step, and goes on when it fails. */
  private static void step(String name, Work work) {
    try {
      work.run();
      System.out.println(name + "\tok");
    } catch (Exception error) {
      failed = true;
      System.out.println((name + "\tFAILED " + error).replace('\n', ' '));
    }
  }

  private static byte[] random(int length) {
    byte[] body = new byte[length];
    RANDOM.nextBytes(body);
    return body;
  }

  private static void put(String key, byte[] body) {
    s3.putObject(put -> put.bucket(BUCKET).key(key), RequestBody.fromBytes(body));
  }

  private static byte[] get(String key) {
    return s3.getObjectAsBytes(get -> get.bucket(BUCKET).key(key)).asByteArray();
  }

  private static void same(byte[] found, byte[] expected) {
    if (!Arrays.equals(found, expected)) {
      throw new IllegalStateException(
          "found " + found.length + " bytes that are not the " + expected.length + " expected");
    }
  }

  private static void equal(Object found, Object expected) {
    if (!expected.equals(found)) {
      throw new IllegalStateException("found " + found + ", expected " + expected);
    }
  }

  /** What is refused with this status, and by nothing else. */
  private static void refused(int status, Work work) throws Exception {
    try {
      work.run();
    } catch (S3Exception error) {
      equal(error.statusCode(), status);
      return;
    }
    throw new IllegalStateException("succeeded, expected " + status);
  }

  /** What is refused with this code, and by nothing else. */
  private static void refused(String code, Work work) throws Exception {
    try {
      work.run();
    } catch (S3Exception error) {
      equal(error.awsErrorDetails().errorCode(), code);
      return;
    }
    throw new IllegalStateException("succeeded, expected " + code);
  }

  private static Map<String, String> map(List<Tag> tags) {
    return tags.stream().collect(Collectors.toMap(Tag::key, Tag::value));
  }

  private static List<Tag> tags(Map<String, String> map) {
    return map.entrySet().stream().map(tag -> Tag.builder().key(tag.getKey()).value(tag.getValue()).build()).toList();
  }

  private static void tagged(String key, Map<String, String> expected) {
    equal(map(s3.getObjectTagging(get -> get.bucket(BUCKET).key(key)).tagSet()), expected);
  }

  /** A request by a program that knows nothing of S3. */
  private static HttpResponse<byte[]> http(String method, URL url, byte[] body) throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(url.toString()))
            .timeout(Duration.ofMinutes(1))
            .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(body))
            .build();
    HttpResponse<byte[]> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
    if (answer.statusCode() != 200) {
      throw new IllegalStateException(answer.statusCode() + " " + new String(answer.body()));
    }
    return answer;
  }

  private static void putAll() {
    put("small", SMALL);
    put("large", LARGE);
    put("empty", EMPTY);
  }

  private static void getAll() {
    same(get("small"), SMALL);
    same(get("large"), LARGE);
    same(get("empty"), EMPTY);
    same(
        s3.getObjectAsBytes(get -> get.bucket(BUCKET).key("large").range("bytes=5-14")).asByteArray(),
        Arrays.copyOfRange(LARGE, 5, 15));
  }

  private static void head() throws Exception {
    equal(s3.headObject(head -> head.bucket(BUCKET).key("large")).contentLength(), (long) LARGE.length);
    refused(404, () -> s3.headObject(head -> head.bucket(BUCKET).key("missing")));
  }

  private static void checksum() {
    CRC32 crc32 = new CRC32();
    crc32.update(SMALL);
    byte[] bytes = ByteBuffer.allocate(4).putInt((int) crc32.getValue()).array();
    String sum = Base64.getEncoder().encodeToString(bytes);
    s3.putObject(
        put -> put.bucket(BUCKET).key("checksum").checksumAlgorithm(ChecksumAlgorithm.CRC32).checksumCRC32(sum),
        RequestBody.fromBytes(SMALL));
    var found = s3.getObjectAsBytes(get -> get.bucket(BUCKET).key("checksum").checksumMode("ENABLED"));
    same(found.asByteArray(), SMALL);
    equal(found.response().checksumCRC32(), sum);
  }

  private static void list() {
    List<String> expected = new ArrayList<>();
    for (int number = 0; number < 5; number++) {
      put("list/" + number + "/a", SMALL);
      expected.add("list/" + number + "/");
    }
    var pages = s3.listObjectsV2Paginator(list -> list.bucket(BUCKET).prefix("list/").delimiter("/").maxKeys(2));
    equal(pages.commonPrefixes().stream().map(CommonPrefix::prefix).toList(), expected);
  }

  /** By the transfer manager, over an asynchronous client that cuts bodies into parts. */
  private static void multipart() throws IOException {
    byte[] body = random(20 << 20);
    var file = Files.createTempFile("sherd", ".bin");
    try (var parts =
            S3AsyncClient.builder().endpointOverride(ENDPOINT).forcePathStyle(true).multipartEnabled(true).build();
        var transfers = S3TransferManager.builder().s3Client(parts).build()) {
      Files.write(file, body);
      transfers
          .uploadFile(
              upload ->
                  upload
                      .source(file)
                      .putObjectRequest(put -> put.bucket(BUCKET).key("multipart").tagging("sent=in+parts")))
          .completionFuture()
          .join();
      transfers
          .downloadFile(
              download -> download.destination(file).getObjectRequest(get -> get.bucket(BUCKET).key("multipart")))
          .completionFuture()
          .join();
      same(Files.readAllBytes(file), body);
      tagged("multipart", Map.of("sent", "in parts"));
    } finally {
      Files.delete(file);
    }
  }

  private static void asynchronous() {
    async.putObject(put -> put.bucket(BUCKET).key("async"), AsyncRequestBody.fromBytes(LARGE)).join();
    same(
        async.getObject(get -> get.bucket(BUCKET).key("async"), AsyncResponseTransformer.toBytes()).join().asByteArray(),
        LARGE);
    var listed = async.listObjectsV2(list -> list.bucket(BUCKET).prefix("async")).join();
    equal(listed.contents().stream().map(S3Object::key).toList(), List.of("async"));
  }

  private static void copy() {
    s3.copyObject(
        copy -> copy.sourceBucket(BUCKET).sourceKey("large").destinationBucket(BUCKET).destinationKey("copy"));
    same(get("copy"), LARGE);
  }

  private static void conditionalPut() throws Exception {
    s3.putObject(put -> put.bucket(BUCKET).key("once").ifNoneMatch("*"), RequestBody.fromBytes(SMALL));
    refused(
        412,
        () -> s3.putObject(put -> put.bucket(BUCKET).key("once").ifNoneMatch("*"), RequestBody.fromBytes(LARGE)));
    same(get("once"), SMALL);
  }

  private static void objectTags() {
    s3.putObject(
        put -> put.bucket(BUCKET).key("tagged").tagging("kind=first&note=two%20words%2B"), RequestBody.fromBytes(SMALL));
    tagged("tagged", Map.of("kind", "first", "note", "two words+"));
    equal(s3.getObjectAsBytes(get -> get.bucket(BUCKET).key("tagged")).response().tagCount(), 2);
    var second = Map.of("kind", "second");
    s3.putObjectTagging(put -> put.bucket(BUCKET).key("tagged").tagging(tagging -> tagging.tagSet(tags(second))));
    tagged("tagged", second);
    s3.copyObject(
        copy ->
            copy.sourceBucket(BUCKET).sourceKey("tagged").destinationBucket(BUCKET).destinationKey("with its tags"));
    tagged("with its tags", second);
    s3.copyObject(
        copy ->
            copy.sourceBucket(BUCKET)
                .sourceKey("tagged")
                .destinationBucket(BUCKET)
                .destinationKey("with others")
                .taggingDirective(TaggingDirective.REPLACE)
                .tagging("kind=third"));
    tagged("with others", Map.of("kind", "third"));
    s3.deleteObjectTagging(delete -> delete.bucket(BUCKET).key("tagged"));
    tagged("tagged", Map.of());
  }

  private static void bucketTags() throws Exception {
    refused("NoSuchTagSet", () -> s3.getBucketTagging(get -> get.bucket(BUCKET)));
    var tags = Map.of("kind", "a bucket", "cost", "1");
    s3.putBucketTagging(put -> put.bucket(BUCKET).tagging(tagging -> tagging.tagSet(tags(tags))));
    equal(map(s3.getBucketTagging(get -> get.bucket(BUCKET)).tagSet()), tags);
    s3.deleteBucketTagging(delete -> delete.bucket(BUCKET));
    refused("NoSuchTagSet", () -> s3.getBucketTagging(get -> get.bucket(BUCKET)));
  }

  private static void cors() throws Exception {
    refused("NoSuchCORSConfiguration", () -> s3.getBucketCors(get -> get.bucket(BUCKET)));
    var rule =
        CORSRule.builder()
            .id("pages")
            .allowedOrigins("http://*.test")
            .allowedMethods("GET", "PUT")
            .allowedHeaders("*")
            .exposeHeaders("ETag")
            .maxAgeSeconds(300)
            .build();
    s3.putBucketCors(put -> put.bucket(BUCKET).corsConfiguration(cors -> cors.corsRules(rule)));
    equal(s3.getBucketCors(get -> get.bucket(BUCKET)).corsRules(), List.of(rule));
    s3.deleteBucketCors(delete -> delete.bucket(BUCKET));
    refused("NoSuchCORSConfiguration", () -> s3.getBucketCors(get -> get.bucket(BUCKET)));
  }

  private static void policy() throws Exception {
    var everyone =
        "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Principal\":\"*\","
            + "\"Action\":\"s3:GetObject\",\"Resource\":\"arn:aws:s3:::" + BUCKET + "/*\"}]}";
    refused("NoSuchBucketPolicy", () -> s3.getBucketPolicy(get -> get.bucket(BUCKET)));
    refused("AccessDenied", () -> s3.putBucketPolicy(put -> put.bucket(BUCKET).policy(everyone)));
    var block = s3.getPublicAccessBlock(get -> get.bucket(BUCKET)).publicAccessBlockConfiguration();
    s3.deletePublicAccessBlock(delete -> delete.bucket(BUCKET));
    refused(
        "NoSuchPublicAccessBlockConfiguration", () -> s3.getPublicAccessBlock(get -> get.bucket(BUCKET)));
    s3.putBucketPolicy(put -> put.bucket(BUCKET).policy(everyone));
    equal(s3.getBucketPolicy(get -> get.bucket(BUCKET)).policy(), everyone);
    equal(s3.getBucketPolicyStatus(get -> get.bucket(BUCKET)).policyStatus().isPublic(), true);
    s3.putPublicAccessBlock(put -> put.bucket(BUCKET).publicAccessBlockConfiguration(block));
    s3.deleteBucketPolicy(delete -> delete.bucket(BUCKET));
    refused("NoSuchBucketPolicy", () -> s3.getBucketPolicy(get -> get.bucket(BUCKET)));
  }

  private static void presignedGet() throws Exception {
    var signed =
        presigner.presignGetObject(
            sign ->
                sign.signatureDuration(Duration.ofHours(1))
                    .getObjectRequest(get -> get.bucket(BUCKET).key("large")));
    same(http("GET", signed.url(), null).body(), LARGE);
  }

  private static void presignedHead() throws Exception {
    var signed =
        presigner.presignHeadObject(
            sign ->
                sign.signatureDuration(Duration.ofHours(1))
                    .headObjectRequest(head -> head.bucket(BUCKET).key("large")));
    var length = http("HEAD", signed.url(), null).headers().firstValueAsLong("Content-Length");
    equal(length.orElse(-1), (long) LARGE.length);
  }

  private static void presignedPut() throws Exception {
    var signed =
        presigner.presignPutObject(
            sign ->
                sign.signatureDuration(Duration.ofHours(1))
                    .putObjectRequest(put -> put.bucket(BUCKET).key("presigned")));
    http("PUT", signed.url(), SMALL);
    same(get("presigned"), SMALL);
  }

  private static void delete() {
    s3.deleteObject(delete -> delete.bucket(BUCKET).key("small"));
    var keys =
        s3.listObjectsV2(list -> list.bucket(BUCKET)).contents().stream()
            .map(object -> ObjectIdentifier.builder().key(object.key()).build())
            .toList();
    var deleted = s3.deleteObjects(delete -> delete.bucket(BUCKET).delete(objects -> objects.objects(keys)));
    equal(deleted.errors(), List.of());
    equal(s3.listObjectsV2(list -> list.bucket(BUCKET)).keyCount(), 0);
  }

  public static void main(String[] arguments) {
    step("create bucket", () -> s3.createBucket(create -> create.bucket(BUCKET)));
    step("put", Client::putAll);
    step("get", Client::getAll);
    step("head", Client::head);
    step("checksum", Client::checksum);
    step("list", Client::list);
    step("multipart", Client::multipart);
    step("async", Client::asynchronous);
    step("copy", Client::copy);
    step("conditional put", Client::conditionalPut);
    step("tags", Client::objectTags);
    step("bucket tags", Client::bucketTags);
    step("cors", Client::cors);
    step("policy", Client::policy);
    step("presigned get", Client::presignedGet);
    step("presigned head", Client::presignedHead);
    step("presigned put", Client::presignedPut);
    step("delete", Client::delete);
    step("delete bucket", () -> s3.deleteBucket(delete -> delete.bucket(BUCKET)));
    System.exit(failed ? 1 : 0);
  }
}
