// The image SHERD_IMAGE in Testcontainers for Go: by itself, and with what the module for MinIO asks for.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

func main() {
	log.SetFlags(0)
	image := os.Getenv("SHERD_IMAGE")
	for _, step := range []struct {
		name string
		does func(context.Context, string) error
	}{{"container", container}, {"module", module}} {
		if err := step.does(context.Background(), image); err != nil {
			log.Fatalf("%s: %v", step.name, err)
		}
		fmt.Printf("%s\tok\n", step.name)
	}
}

func container(ctx context.Context, image string) error {
	// In docs/ci.md from here.
	store, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{
			"MINIO_ROOT_USER": "minio", "MINIO_ROOT_PASSWORD": "minio123", "MINIO_DEFAULT_BUCKETS": "uploads",
		}),
		testcontainers.WithExposedPorts("9000/tcp"),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/minio/health/ready").WithPort("9000/tcp")),
	)
	defer testcontainers.TerminateContainer(store)
	if err != nil {
		return err
	}
	endpoint, err := store.PortEndpoint(ctx, "9000/tcp", "http")
	if err != nil {
		return err
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("minio", "minio123", ""),
	})
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("uploads"), Key: aws.String("hello.txt"), Body: strings.NewReader("hello"),
	})
	// To here.
	if err != nil {
		return err
	}
	return same(ctx, client)
}

// The module is one of its own, and is not needed for a request that has four members.
func module(ctx context.Context, image string) error {
	store, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{"MINIO_ROOT_USER": "minioadmin", "MINIO_ROOT_PASSWORD": "minioadmin"}),
		testcontainers.WithExposedPorts("9000/tcp"),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/minio/health/live").WithPort("9000/tcp")),
		testcontainers.WithCmd("server", "/data"),
	)
	defer testcontainers.TerminateContainer(store)
	if err != nil {
		return err
	}
	endpoint, err := store.PortEndpoint(ctx, "9000/tcp", "http")
	if err != nil {
		return err
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("minioadmin", "minioadmin", ""),
	})
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("uploads")}); err != nil {
		return err
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("uploads"), Key: aws.String("hello.txt"), Body: strings.NewReader("hello"),
	})
	if err != nil {
		return err
	}
	return same(ctx, client)
}

// Reads what was put.
func same(ctx context.Context, client *s3.Client) error {
	got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("uploads"), Key: aws.String("hello.txt")})
	if err != nil {
		return err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err == nil && string(body) != "hello" {
		err = fmt.Errorf("found %q", body)
	}
	return err
}
