//! Tenants of `testdata` become the documents beside them, byte for byte, and others an error without output.

use super::*;

/// Converts an example, and compares it with its copy, which `SHERD_BLESS` renews. The operator's test reads
/// the copies as its resources.
#[expect(clippy::disallowed_methods, reason = "the examples are files")]
fn example(name: &str) -> (String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/process/convert/testdata");
    let arguments = ConvertArgs { file: folder.join(format!("{name}.yaml")), name: None };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    convert(&arguments, &mut out, &mut err).expect("converted");
    let copy = folder.join(format!("{name}.converted.yaml"));
    if std::env::var_os("SHERD_BLESS").is_some() {
        std::fs::write(&copy, &out).expect("written");
    }
    let out = String::from_utf8(out).expect("text");
    assert_eq!(
        std::fs::read_to_string(&copy).expect("a copy"),
        out,
        "SHERD_BLESS=1 renews {}",
        copy.display()
    );
    (out, String::from_utf8(err).expect("text"))
}

#[test]
fn a_tenant_becomes_a_cluster_buckets_and_users_and_each_other_field_is_named() {
    let (out, err) = example("tenant");
    let named: Vec<&str> =
        err.lines().map(|line| line.strip_prefix("left out: ").expect("the form")).collect();
    let head = out.lines().skip(2).map_while(|line| line.strip_prefix("#   "));
    assert!(head.eq(named.iter().copied()), "{out}");
    for path in [
        "tenant.metadata.labels",
        "spec.image",
        "spec.configuration",
        "spec.configuration (Secret shop-env): MINIO_BROWSER",
        "spec.pools[0].affinity.podAntiAffinity",
        "spec.pools[0].securityContext.fsGroupChangePolicy",
        "spec.pools[0].runtimeClassName",
        "spec.pools[1]",
        "spec.certConfig.commonName",
        "spec.externalCertSecret[2]",
        "spec.features.bucketDNS",
        "spec.features.domains.console",
        "spec.buckets[1].region",
        "spec.buckets[1].objectLock",
        "spec.users[0]: the policy consoleAdmin",
        "spec.exposeServices.console",
        "spec.serviceMetadata.minioServiceLabels",
        "spec.env[1]: MINIO_API_REQUESTS_MAX",
        "spec.prometheusOperator",
        "spec.logging",
        "spec.kes",
        "spec.podManagementPolicy",
        "spec.mountPath",
        "spec.somethingNew",
    ] {
        assert_eq!(named.iter().filter(|line| line.starts_with(path)).count().min(1), 1, "{path}: {err}");
    }
    for secret in ["root-of-shop", "the-password-of-root", "shop-app", "secret-of-shop", "c2hvcC1hcHA="] {
        assert!(!out.contains(secret) && !err.contains(secret), "{secret}");
    }
}

#[test]
fn a_tenant_that_is_taken_whole_leaves_nothing_out() {
    let (out, err) = example("minimal");
    assert!(out.contains("# Nothing was left out.\n") && err.is_empty(), "{out}{err}");
}

#[test]
fn what_is_no_tenant_is_refused_by_its_field() {
    let tenant = |pool: &str| {
        format!(
            "apiVersion: minio.min.io/v2\nkind: Tenant\nmetadata: {{name: a}}\nspec: {{pools: [{pool}]}}\n"
        )
    };
    let claim = "volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Gi}}}}";
    let pool = |servers: &str| tenant(&format!("{{servers: {servers}, volumesPerServer: 1, {claim}}}"));
    let cases = [
        (String::new(), "no Tenant of minio.min.io/v2"),
        ("kind: Tenant\napiVersion: minio.min.io/v1\n".to_owned(), "no Tenant of minio.min.io/v2"),
        ([pool("4"), pool("4")].join("---\n"), "holds 2 Tenants"),
        ("a: [".to_owned(), "tenant.yaml: "),
        (tenant(""), "spec.pools must be a list with a pool"),
        (tenant("7"), "spec.pools must be a list of objects"),
        (pool("many"), "spec.pools[0].servers must be 1 to 64"),
        (pool("65"), "spec.pools[0].servers must be 1 to 64"),
        (pool("17"), "no set of 8 to 16 volumes spreads 17 x 1"),
        (tenant("{servers: 4, volumesPerServer: 1}"), "requests.storage must be the size of a volume"),
        (pool("4").replace("name: a", "name: Upper"), "give --name"),
    ];
    for (text, words) in cases {
        let error = convert_text(&text, None, Path::new("tenant.yaml")).expect_err(words).to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let broken = "stringData:\n  config.env: MINIO_ROOT_PASSWORD=the-password\n  other: [";
    let error = convert_text(broken, None, Path::new("tenant.yaml")).expect_err("broken").to_string();
    assert!(error.contains("line 3") && !error.contains("the-password"), "{error}");
    let named = convert_text(&pool("4").replace("name: a", "name: Upper"), Some("upper"), Path::new("-"));
    assert!(named.expect("converted").yaml.contains("name: upper"));
}
