// The steps of e2e/clients/README.md with the AWS SDK for Go v2 at its default settings.
//
// SHERD_ENDPOINT names the store; credentials and region come from the environment, as the SDK takes them.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

var (
	ctx    = context.Background()
	client *s3.Client
	bucket = aws.String(fmt.Sprintf("go-%d", time.Now().UnixNano()))
	small  = []byte("small")
	large  = random(6 << 20)
	failed = false
)

// step prints one line for a step, and goes on when it fails.
func step(name string, work func() error) {
	if err := work(); err != nil {
		failed = true
		fmt.Printf("%s\tFAILED %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("%s\tok\n", name)
}

func random(length int) []byte {
	body := make([]byte, length)
	_, _ = rand.Read(body)
	return body
}

func put(key string, body []byte) error {
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String(key), Body: bytes.NewReader(body),
	})
	return err
}

func get(key string, expected []byte) error {
	found, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String(key)})
	if err != nil {
		return err
	}
	defer found.Body.Close()
	return same(found.Body, expected)
}

func same(found io.Reader, expected []byte) error {
	body, err := io.ReadAll(found)
	if err == nil && !bytes.Equal(body, expected) {
		err = fmt.Errorf("found %d bytes that are not the %d expected", len(body), len(expected))
	}
	return err
}

func equal(found, expected any) error {
	if reflect.DeepEqual(found, expected) {
		return nil
	}
	return fmt.Errorf("found %v, expected %v", found, expected)
}

// refused is nil where an error is an answer of this status.
func refused(status int, err error) error {
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		return equal(response.HTTPStatusCode(), status)
	}
	return fmt.Errorf("expected status %d: %v", status, err)
}

// request is one of a program that knows nothing of S3.
func request(method, url string, body, expected []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return same(answer.Body, expected)
}

func putAll() error {
	return errors.Join(put("small", small), put("large", large), put("empty", nil))
}

func getAll() error {
	ranged, err := client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: bucket, Key: aws.String("large"), Range: aws.String("bytes=5-14"),
	})
	if err != nil {
		return err
	}
	defer ranged.Body.Close()
	return errors.Join(
		get("small", small), get("large", large), get("empty", nil), same(ranged.Body, large[5:15]),
	)
}

func head() error {
	found, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("large")})
	if err != nil {
		return err
	}
	_, missing := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("missing")})
	return errors.Join(equal(*found.ContentLength, int64(len(large))), refused(404, missing))
}

func checksum() error {
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(small)))
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("checksum"), Body: bytes.NewReader(small),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, ChecksumCRC32: aws.String(sum),
	})
	if err != nil {
		return err
	}
	found, err := client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: bucket, Key: aws.String("checksum"), ChecksumMode: types.ChecksumModeEnabled,
	})
	if err != nil {
		return err
	}
	defer found.Body.Close()
	return errors.Join(same(found.Body, small), equal(aws.ToString(found.ChecksumCRC32), sum))
}

func list() error {
	var expected, found []string
	for number := range 5 {
		prefix := fmt.Sprintf("list/%d/", number)
		if err := put(prefix+"a", small); err != nil {
			return err
		}
		expected = append(expected, prefix)
	}
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
		Bucket: bucket, Prefix: aws.String("list/"), Delimiter: aws.String("/"), MaxKeys: aws.Int32(2),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, prefix := range page.CommonPrefixes {
			found = append(found, *prefix.Prefix)
		}
	}
	return equal(found, expected)
}

func multipart() error {
	body, key := random(20<<20), aws.String("multipart")
	transfers := transfermanager.New(client)
	_, err := transfers.UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: bucket, Key: key, Body: bytes.NewReader(body),
	})
	if err != nil {
		return err
	}
	found, err := transfers.GetObject(ctx, &transfermanager.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		return err
	}
	return same(found.Body, body)
}

func copyObject() error {
	_, err := client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: bucket, Key: aws.String("copy"), CopySource: aws.String(*bucket + "/large"),
	})
	if err != nil {
		return err
	}
	return get("copy", large)
}

func conditionalPut() error {
	once := func(body []byte) error {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: bucket, Key: aws.String("once"), Body: bytes.NewReader(body), IfNoneMatch: aws.String("*"),
		})
		return err
	}
	return errors.Join(once(small), refused(412, once(large)), get("once", small))
}

func presignedGet() error {
	signed, err := s3.NewPresignClient(client).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: bucket, Key: aws.String("large"),
	})
	if err != nil {
		return err
	}
	return request(http.MethodGet, signed.URL, nil, large)
}

func presignedPut() error {
	signed, err := s3.NewPresignClient(client).PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("presigned"),
	})
	if err != nil {
		return err
	}
	return errors.Join(request(http.MethodPut, signed.URL, small, nil), get("presigned", small))
}

func deleteObjects() error {
	if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String("small")}); err != nil {
		return err
	}
	listed, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
	if err != nil {
		return err
	}
	var objects []types.ObjectIdentifier
	for _, object := range listed.Contents {
		objects = append(objects, types.ObjectIdentifier{Key: object.Key})
	}
	deleted, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: bucket, Delete: &types.Delete{Objects: objects},
	})
	if err != nil {
		return err
	}
	left, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
	if err != nil {
		return err
	}
	return errors.Join(equal(len(deleted.Errors), 0), equal(*left.KeyCount, int32(0)))
}

func main() {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		panic(err)
	}
	client = s3.NewFromConfig(settings, func(options *s3.Options) {
		options.BaseEndpoint = aws.String(os.Getenv("SHERD_ENDPOINT"))
		// An address in place of a name has no place for the bucket but the path.
		options.UsePathStyle = true
	})
	step("create bucket", func() error {
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
		return err
	})
	step("put", putAll)
	step("get", getAll)
	step("head", head)
	step("checksum", checksum)
	step("list", list)
	step("multipart", multipart)
	step("copy", copyObject)
	step("conditional put", conditionalPut)
	step("presigned get", presignedGet)
	step("presigned put", presignedPut)
	step("delete", deleteObjects)
	step("delete bucket", func() error {
		_, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
		return err
	})
	if failed {
		os.Exit(1)
	}
}
