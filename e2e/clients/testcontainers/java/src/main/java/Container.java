// The image SHERD_IMAGE in Testcontainers for Java: by itself, and in the place of MinIO's in its module.

import java.net.URI;
import java.util.Map;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.MinIOContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.utility.DockerImageName;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;

/** Puts an object into each of two containers, and reads it. */
public final class Container {
  private Container() {}

  public static void main(String[] arguments) {
    var image = DockerImageName.parse(System.getenv("SHERD_IMAGE")).asCompatibleSubstituteFor("minio/minio");

    // In docs/ci.md from here.
    try (var store =
        new GenericContainer<>(image)
            .withEnv(Map.of(
                "MINIO_ROOT_USER", "minio", "MINIO_ROOT_PASSWORD", "minio123", "MINIO_DEFAULT_BUCKETS", "uploads"))
            .withExposedPorts(9000)
            .waitingFor(Wait.forHttp("/minio/health/ready").forPort(9000))) {
      store.start();
      var s3 =
          S3Client.builder()
              .endpointOverride(URI.create("http://" + store.getHost() + ":" + store.getMappedPort(9000)))
              .forcePathStyle(true)
              .region(Region.US_EAST_1)
              .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("minio", "minio123")))
              .build();
      s3.putObject(request -> request.bucket("uploads").key("hello.txt"), RequestBody.fromString("hello"));
      // To here.
      same(s3);
    }
    System.out.println("container\tok");

    // By itself it gives the image no key, and takes MinIO's default for granted, which Sherd does not have.
    try (var store = new MinIOContainer(image).withUserName("minio").withPassword("minio123")) {
      store.start();
      var credentials = AwsBasicCredentials.create(store.getUserName(), store.getPassword());
      var s3 =
          S3Client.builder()
              .endpointOverride(URI.create(store.getS3URL()))
              .forcePathStyle(true)
              .region(Region.US_EAST_1)
              .credentialsProvider(StaticCredentialsProvider.create(credentials))
              .build();
      s3.createBucket(request -> request.bucket("uploads"));
      s3.putObject(request -> request.bucket("uploads").key("hello.txt"), RequestBody.fromString("hello"));
      same(s3);
    }
    System.out.println("module\tok");
  }

  private static void same(S3Client s3) {
    var found = s3.getObjectAsBytes(request -> request.bucket("uploads").key("hello.txt")).asUtf8String();
    if (!found.equals("hello")) {
      throw new AssertionError("found " + found);
    }
  }
}
