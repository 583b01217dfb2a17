//! CreateBucket, HeadBucket, DeleteBucket, ListBuckets, GetBucketLocation.
//!
//! A cluster is one region. A bucket is in it or nowhere, so a location constraint names it or is
//! refused; no constraint means the cluster's region. As on AWS, us-east-1 has
//! the empty name, and there alone creating one's own bucket again succeeds.

pub(crate) mod account;
pub(crate) mod configuration;
pub(crate) mod cors;
mod limits;
pub(crate) mod listing;
pub(crate) mod list_objects;
pub(crate) mod list_versions;
pub(crate) mod ownership;
pub(crate) mod policy;
pub(crate) mod public_access;
pub(crate) mod settings;
pub(crate) mod tags;
pub(crate) mod token;

use std::io::Write;

use http::header::{HeaderName, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::dto::{
    Bucket, BucketLocationConstraint, CreateBucketConfiguration, GetBucketLocationOutput, ListBucketsOutput,
};
use s3s::xml::{SerResult, Serialize, SerializeContent, Serializer};

use crate::access::facts::{DocumentFacts, Facts};
use crate::answer::{self, NAMESPACE, Outcome, Response};
use crate::bucket::limits::{BUCKETS_AT_ONCE, BUCKETS_MAX};
use crate::bucket::token::ListingKind;
use crate::gateway::{Gateway, REGION_DEFAULT};
use crate::head::{document, names, owner, timestamp};
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_core::config::public_access::PublicAccessBlock;
use sherd_policy::Resource;
use sherd_store::object::{BucketInfo, BucketPage, Error, NewBucket};

const BUCKET_ARN: HeaderName = HeaderName::from_static("x-amz-bucket-arn");

/// The regions of AWS, as a location constraint names them: botocore's list.
const REGIONS: &[&str] = &[
    "EU",
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "cn-north-1",
    "cn-northwest-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-west-1",
    "us-west-2",
];

pub(crate) async fn create(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let document = request.payload.into_document();
    let configuration: Option<CreateBucketConfiguration> =
        document.as_deref().map(document::of).transpose()?;
    request.head.flag("x-amz-bucket-object-lock-enabled")?;
    let name = names::new_bucket(request.target.bucket_name())?;
    if gateway.reserved_buckets.contains(&name.as_str()) {
        let message = "The bucket name is reserved: the store answers health probes at its paths";
        return Err(Refusal::says(Code::InvalidBucketName, message).into());
    }
    let tags = document.map_or(Ok(Vec::new()), |bytes| tags::of_new_bucket(&bytes))?;
    let configuration = configuration.unwrap_or_default();
    if configuration.bucket.is_some() || configuration.location.is_some() {
        return Err(Refusal::says(Code::NotImplemented, "Directory buckets are not implemented").into());
    }
    let constraint = configuration.location_constraint.as_ref().map(BucketLocationConstraint::as_str);
    let location = location_of(&gateway.region, constraint)?;
    let given = DocumentFacts::Bucket { location: constraint.unwrap_or_default(), tags: &tags };
    let facts = Facts::of(&request.head).with_document(given);
    let access = request.access;
    access.settle(Resource::Bucket(name.as_str()), facts)?;
    tags::check_new(&access, name.as_str(), &tags, facts)?;
    // As on AWS since April 2023.
    let public_access_block = Some(PublicAccessBlock::ALL);
    let new = NewBucket { location, tags, public_access_block };
    match gateway.objects.create_bucket(name.clone(), new).await {
        Ok(()) => {}
        Err(Error::BucketAlreadyOwnedByYou) if gateway.region == REGION_DEFAULT => {}
        Err(error) => return Err(error.into()),
    }
    let place = HeaderValue::try_from(format!("/{name}")).expect("a bucket's name is a header value");
    let headers = [(LOCATION, place), (BUCKET_ARN, arn(name.as_str()))];
    Ok(answer::empty(StatusCode::OK, HeaderMap::from_iter(headers)))
}

/// The name of a bucket that is unique in all of AWS.
fn arn(bucket: &str) -> HeaderValue {
    HeaderValue::try_from(format!("arn:aws:s3:::{bucket}")).expect("a bucket's name is a header value")
}

/// Where a new bucket says it is: the region's name, or nothing for us-east-1.
fn location_of(region: &str, constraint: Option<&str>) -> Result<String, Refusal> {
    let stored = || if region == REGION_DEFAULT { String::new() } else { region.to_owned() };
    match constraint {
        None | Some("") => Ok(stored()),
        Some(constraint) if constraint == region => Ok(stored()),
        Some(constraint) if !REGIONS.contains(&constraint) => {
            Err(Refusal::new(Code::InvalidLocationConstraint).with("LocationConstraint", constraint))
        }
        Some(constraint) => Err(Refusal::says(
            Code::IllegalLocationConstraintException,
            format!(
                "The {constraint} location constraint is incompatible for the region specific endpoint this request was \
             sent to."
            ),
        )),
    }
}

pub(crate) async fn head(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = gateway.objects.head_bucket(request.target.bucket_key()).await?;
    let mut headers = HeaderMap::new();
    if let Ok(region) = HeaderValue::try_from(region_of(&bucket)) {
        headers.insert("x-amz-bucket-region", region);
    }
    headers.insert(BUCKET_ARN, arn(bucket.name.as_str()));
    headers.insert("x-amz-access-point-alias", HeaderValue::from_static("false"));
    Ok(answer::empty(StatusCode::OK, headers))
}

fn region_of(bucket: &BucketInfo) -> String {
    if bucket.location.is_empty() { REGION_DEFAULT.to_owned() } else { bucket.location.clone() }
}

pub(crate) async fn delete(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    gateway.objects.delete_bucket(request.target.bucket_key(), request.access.is_roots()).await?;
    Ok(answer::no_content())
}

pub(crate) async fn location(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket = gateway.objects.head_bucket(request.target.bucket_key()).await?;
    let location_constraint =
        (!bucket.location.is_empty()).then(|| BucketLocationConstraint::from(bucket.location));
    answer::document(&GetBucketLocationOutput { location_constraint })
}

pub(crate) async fn list(gateway: &Gateway, request: Request<'_>) -> Outcome<Response> {
    let bucket_region = request.head.text("bucket-region");
    let continuation_token = request.head.text("continuation-token");
    let max_buckets = request.head.parameter("max-buckets")?;
    let prefix = request.head.text("prefix");
    let max = max_buckets.map_or(Ok(BUCKETS_MAX), max_of)?;
    // AWS says a bucket's region once the request has any parameter.
    let with_region =
        bucket_region.is_some() || continuation_token.is_some() || max_buckets.is_some() || prefix.is_some();
    let is_continued = continuation_token.is_some();
    let after = continuation_token.map(|token| token::decode(ListingKind::Buckets, &token)).transpose()?;
    let elsewhere = bucket_region.is_some_and(|region| region != gateway.region);
    let page = if elsewhere {
        BucketPage { buckets: Vec::new(), next: None }
    } else {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let length = PageLength { max, is_fixed: max_buckets.is_none() && !is_continued };
        page(gateway, prefix.as_deref().unwrap_or_default(), after, length).await?
    };
    let behind = ListBucketsOutput {
        buckets: None,
        continuation_token: page.next.map(|name| token::encode(ListingKind::Buckets, &name)),
        owner: Some(owner::owner()),
        prefix,
    };
    answer::document(&BucketList { rows: BucketRows { buckets: &page.buckets, with_region }, behind })
}

/// The document: buckets with their ARNs, which s3s does not have, and the rest.
struct BucketList<'a> {
    rows: BucketRows<'a>,
    /// All elements that stand behind the buckets.
    behind: ListBucketsOutput,
}

impl Serialize for BucketList<'_> {
    fn serialize<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        serializer.element_with_ns("ListAllMyBucketsResult", NAMESPACE, |serializer| {
            serializer.content("Buckets", &self.rows)?;
            self.behind.serialize_content(serializer)
        })
    }
}

/// The buckets of a page.
struct BucketRows<'a> {
    buckets: &'a [BucketInfo],
    with_region: bool,
}

impl SerializeContent for BucketRows<'_> {
    fn serialize_content<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        for bucket in self.buckets {
            serializer.content("Bucket", &BucketRow { bucket, with_region: self.with_region })?;
        }
        Ok(())
    }
}

/// A bucket of a page.
struct BucketRow<'a> {
    bucket: &'a BucketInfo,
    with_region: bool,
}

impl SerializeContent for BucketRow<'_> {
    fn serialize_content<W: Write>(&self, serializer: &mut Serializer<W>) -> SerResult {
        let arn = format!("arn:aws:s3:::{}", self.bucket.name);
        serializer.content("BucketArn", &arn)?;
        described(self.bucket, self.with_region).serialize_content(serializer)
    }
}

/// How many buckets are answered.
#[derive(Debug, Clone, Copy)]
struct PageLength {
    max: usize,
    /// Whether as many are answered as there are: a client that asks for no page sends no second request.
    /// Others continue where the store ended a page early, for it had passed enough deleted buckets.
    is_fixed: bool,
}

impl PageLength {
    /// Whether the answer ends with what the store gave so far; `is_short` where its last page had fewer
    /// than it was asked for.
    const fn is_reached(self, all: &BucketPage, is_short: bool) -> bool {
        all.next.is_none() || all.buckets.len() >= self.max || (is_short && !self.is_fixed)
    }
}

/// A page of buckets, asked of the store a thousand at a time.
async fn page(
    gateway: &Gateway,
    prefix: &str,
    after: Option<String>,
    length: PageLength,
) -> Outcome<BucketPage> {
    let mut all = BucketPage { buckets: Vec::new(), next: after };
    loop {
        let asked = length.max.saturating_sub(all.buckets.len()).min(BUCKETS_AT_ONCE);
        let max = u32::try_from(asked).expect("a thousand");
        let BucketPage { buckets, next } =
            gateway.objects.list_buckets(prefix, all.next.as_deref(), max).await?;
        let is_short = buckets.len() < asked;
        all.buckets.extend(buckets);
        all.next = next;
        if length.is_reached(&all, is_short) {
            return Ok(all);
        }
    }
}

fn max_of(asked: i32) -> Result<u32, Refusal> {
    let max = u32::try_from(asked).ok().filter(|max| (1..=BUCKETS_MAX).contains(max));
    max.ok_or_else(|| {
        let message = format!("Argument max-buckets must be an integer between 1 and {BUCKETS_MAX}");
        Refusal::bad_argument(message, "max-buckets", &asked.to_string())
    })
}

fn described(bucket: &BucketInfo, with_region: bool) -> Bucket {
    Bucket {
        bucket_region: with_region.then(|| region_of(bucket)),
        creation_date: Some(timestamp::in_xml(bucket.created_ms)),
        name: Some(bucket.name.as_str().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sherd_core::id::ObjectKey;

    /// The store ends a page early behind many deleted buckets.
    #[test]
    fn a_client_that_pages_gets_short_pages_and_another_one_all_buckets() {
        let bucket = BucketInfo {
            name: ObjectKey::new("a".to_owned()).expect("a name"),
            created_ms: 0,
            location: String::new(),
            tags: Vec::new(),
        };
        let page = |count, next: Option<&str>| BucketPage {
            buckets: vec![bucket.clone(); count],
            next: next.map(str::to_owned),
        };
        let (all, paged) = (PageLength { max: 9, is_fixed: true }, PageLength { max: 9, is_fixed: false });
        for (count, next, is_short, ends) in [
            (0, Some("deleted"), true, [false, true]),
            (4, Some("deleted"), true, [false, true]),
            (4, Some("d"), false, [false, false]),
            (4, None, true, [true, true]),
            (9, Some("k"), false, [true, true]),
        ] {
            let page = page(count, next);
            assert_eq!([all, paged].map(|length| length.is_reached(&page, is_short)), ends, "{count}");
        }
    }

    #[test]
    fn a_bucket_is_in_the_cluster_region_or_nowhere() {
        let location = |region, constraint| location_of(region, constraint).map_err(|error| error.code);
        assert_eq!(location("us-east-1", None), Ok(String::new()));
        assert_eq!(location("us-east-1", Some("us-east-1")), Ok(String::new()));
        assert_eq!(location("us-east-1", Some("eu-west-1")), Err(Code::IllegalLocationConstraintException));
        assert_eq!(location("us-east-1", Some("atlantis")), Err(Code::InvalidLocationConstraint));
        assert_eq!(location("atlantis", Some("atlantis")), Ok("atlantis".to_owned()));
        assert_eq!(location("eu-west-1", None), Ok("eu-west-1".to_owned()));
        assert_eq!(location("eu-west-1", Some("eu-west-1")), Ok("eu-west-1".to_owned()));
        assert_eq!(location("eu-west-1", Some("us-east-1")), Err(Code::IllegalLocationConstraintException));
    }

    #[test]
    fn a_page_has_1_to_10000_buckets() {
        assert_eq!(max_of(1).unwrap(), 1);
        assert_eq!(max_of(10_000).unwrap(), 10_000);
        for max in [-1, 0, 10_001] {
            assert_eq!(max_of(max).unwrap_err().code, Code::InvalidArgument);
        }
    }
}
