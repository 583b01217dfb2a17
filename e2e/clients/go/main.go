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
	"maps"
	forms "mime/multipart"
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
	"github.com/aws/smithy-go"
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

// code is nil where an error is an answer with this code.
func code(code string, err error) error {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return equal(answer.ErrorCode(), code)
	}
	return fmt.Errorf("expected code %s: %v", code, err)
}

// request is one of a program that knows nothing of S3. What it returns has no body left.
func request(method, url, kind string, body []byte, status int, expected []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != status {
		text, _ := io.ReadAll(answer.Body)
		return nil, fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return answer, same(answer.Body, expected)
}

func tagSet(tags map[string]string) []types.Tag {
	var set []types.Tag
	for key, value := range tags {
		set = append(set, types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	return set
}

func equalTags(set []types.Tag, expected map[string]string) error {
	found := map[string]string{}
	for _, tag := range set {
		found[*tag.Key] = *tag.Value
	}
	if maps.Equal(found, expected) {
		return nil
	}
	return fmt.Errorf("found tags %v, expected %v", found, expected)
}

func tagged(key string, expected map[string]string) error {
	found, err := client.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: bucket, Key: aws.String(key)})
	if err != nil {
		return err
	}
	return equalTags(found.TagSet, expected)
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
		Bucket: bucket, Key: key, Body: bytes.NewReader(body), Tagging: aws.String("sent=in+parts"),
	})
	if err != nil {
		return err
	}
	found, err := transfers.GetObject(ctx, &transfermanager.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		return err
	}
	return errors.Join(same(found.Body, body), tagged(*key, map[string]string{"sent": "in parts"}))
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

func objectTags() error {
	key := aws.String("tagged")
	_, err := client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: key, Body: bytes.NewReader(small), Tagging: aws.String("kind=first&note=two%20words%2B"),
	})
	if err != nil {
		return err
	}
	found, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		return err
	}
	defer found.Body.Close()
	err = errors.Join(
		same(found.Body, small), equal(aws.ToInt32(found.TagCount), int32(2)),
		tagged("tagged", map[string]string{"kind": "first", "note": "two words+"}),
	)
	if err != nil {
		return err
	}
	second := map[string]string{"kind": "second"}
	_, err = client.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{
		Bucket: bucket, Key: key, Tagging: &types.Tagging{TagSet: tagSet(second)},
	})
	if err = errors.Join(err, tagged("tagged", second)); err != nil {
		return err
	}
	source := aws.String(*bucket + "/tagged")
	_, kept := client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: bucket, Key: aws.String("with its tags"), CopySource: source,
	})
	_, replaced := client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: bucket, Key: aws.String("with others"), CopySource: source,
		TaggingDirective: types.TaggingDirectiveReplace, Tagging: aws.String("kind=third"),
	})
	_, deleted := client.DeleteObjectTagging(ctx, &s3.DeleteObjectTaggingInput{Bucket: bucket, Key: key})
	return errors.Join(
		kept, replaced, deleted, tagged("with its tags", second),
		tagged("with others", map[string]string{"kind": "third"}), tagged("tagged", map[string]string{}),
	)
}

func bucketTags() error {
	get := func() (*s3.GetBucketTaggingOutput, error) {
		return client.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: bucket})
	}
	tags := map[string]string{"kind": "a bucket", "cost": "1"}
	_, before := get()
	_, put := client.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{
		Bucket: bucket, Tagging: &types.Tagging{TagSet: tagSet(tags)},
	})
	found, err := get()
	if err = errors.Join(code("NoSuchTagSet", before), put, err); err != nil {
		return err
	}
	_, deleted := client.DeleteBucketTagging(ctx, &s3.DeleteBucketTaggingInput{Bucket: bucket})
	_, after := get()
	return errors.Join(equalTags(found.TagSet, tags), deleted, code("NoSuchTagSet", after))
}

func cors() error {
	get := func() (*s3.GetBucketCorsOutput, error) {
		return client.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: bucket})
	}
	rules := []types.CORSRule{{
		ID:             aws.String("pages"),
		AllowedOrigins: []string{"http://*.test"},
		AllowedMethods: []string{"GET", "PUT"},
		AllowedHeaders: []string{"*"},
		ExposeHeaders:  []string{"ETag"},
		MaxAgeSeconds:  aws.Int32(300),
	}}
	_, before := get()
	_, put := client.PutBucketCors(ctx, &s3.PutBucketCorsInput{
		Bucket: bucket, CORSConfiguration: &types.CORSConfiguration{CORSRules: rules},
	})
	found, err := get()
	if err = errors.Join(code("NoSuchCORSConfiguration", before), put, err); err != nil {
		return err
	}
	_, deleted := client.DeleteBucketCors(ctx, &s3.DeleteBucketCorsInput{Bucket: bucket})
	_, after := get()
	return errors.Join(equal(found.CORSRules, rules), deleted, code("NoSuchCORSConfiguration", after))
}

func policy() error {
	everyone := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*",`+
		`"Action":"s3:GetObject","Resource":"arn:aws:s3:::%s/*"}]}`, *bucket)
	get := func() (*s3.GetBucketPolicyOutput, error) {
		return client.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: bucket})
	}
	put := func() error {
		_, err := client.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: bucket, Policy: &everyone})
		return err
	}
	_, before := get()
	blocked := put()
	_, opened := client.DeletePublicAccessBlock(ctx, &s3.DeletePublicAccessBlockInput{Bucket: bucket})
	_, absent := client.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: bucket})
	err := errors.Join(
		code("NoSuchBucketPolicy", before), code("AccessDenied", blocked), opened,
		code("NoSuchPublicAccessBlockConfiguration", absent), put(),
	)
	if err != nil {
		return err
	}
	found, err := get()
	if err != nil {
		return err
	}
	status, err := client.GetBucketPolicyStatus(ctx, &s3.GetBucketPolicyStatusInput{Bucket: bucket})
	if err != nil {
		return err
	}
	_, closed := client.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{
		Bucket: bucket,
		PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{
			BlockPublicPolicy: aws.Bool(true), RestrictPublicBuckets: aws.Bool(true),
		},
	})
	_, deleted := client.DeleteBucketPolicy(ctx, &s3.DeleteBucketPolicyInput{Bucket: bucket})
	_, after := get()
	return errors.Join(
		equal(*found.Policy, everyone), equal(*status.PolicyStatus.IsPublic, true), closed, deleted,
		code("NoSuchBucketPolicy", after),
	)
}

func presignedGet() error {
	signed, err := s3.NewPresignClient(client).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: bucket, Key: aws.String("large"),
	})
	if err != nil {
		return err
	}
	_, err = request(http.MethodGet, signed.URL, "", nil, http.StatusOK, large)
	return err
}

func presignedHead() error {
	signed, err := s3.NewPresignClient(client).PresignHeadObject(ctx, &s3.HeadObjectInput{
		Bucket: bucket, Key: aws.String("large"),
	})
	if err != nil {
		return err
	}
	answer, err := request(http.MethodHead, signed.URL, "", nil, http.StatusOK, nil)
	if err != nil {
		return err
	}
	return equal(answer.ContentLength, int64(len(large)))
}

func presignedPut() error {
	signed, err := s3.NewPresignClient(client).PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("presigned"),
	})
	if err != nil {
		return err
	}
	_, err = request(http.MethodPut, signed.URL, "", small, http.StatusOK, nil)
	return errors.Join(err, get("presigned", small))
}

func presignedPost() error {
	signed, err := s3.NewPresignClient(client).PresignPostObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("posted/${filename}"),
	}, func(options *s3.PresignPostOptions) {
		// It asks for the very key otherwise, which an upload's name has replaced by then.
		options.Conditions = []any{[]any{"starts-with", "$key", "posted/"}, []any{"content-length-range", 1, 10}}
	})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	form := forms.NewWriter(&body)
	for field, value := range signed.Values {
		if err := form.WriteField(field, value); err != nil {
			return err
		}
	}
	file, err := form.CreateFormFile("file", "small.txt")
	if err != nil {
		return err
	}
	_, written := file.Write(small)
	if err := errors.Join(written, form.Close()); err != nil {
		return err
	}
	_, err = request(http.MethodPost, signed.URL, form.FormDataContentType(), body.Bytes(), http.StatusNoContent, nil)
	return errors.Join(err, get("posted/small.txt", small))
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
	step("tags", objectTags)
	step("bucket tags", bucketTags)
	step("cors", cors)
	step("policy", policy)
	step("presigned get", presignedGet)
	step("presigned head", presignedHead)
	step("presigned put", presignedPut)
	step("presigned post", presignedPost)
	step("delete", deleteObjects)
	step("delete bucket", func() error {
		_, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
		return err
	})
	if failed {
		os.Exit(1)
	}
}
