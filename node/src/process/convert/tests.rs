//! Tenants of `testdata` become the documents beside them, byte for byte, and others an error without output.

use serde_json::json;

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

/// Converts a text, and returns the StorageCluster's specification and what was left out.
fn cluster_of(text: &str) -> (Value, Vec<String>) {
    let converted = convert_text(text, None, Path::new("tenant.yaml")).expect("a Tenant");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&converted.yaml).expect("YAML");
    let lines = converted.left_out.iter().map(ToString::to_string).collect();
    (documents[0]["spec"].clone(), lines)
}

/// A Tenant whose specification and pool have these lines of flow mappings besides what they must have.
fn tenant_with(spec: &str, pool: &str, claim: &str) -> String {
    let claim = format!("{{{claim} spec: {{resources: {{requests: {{storage: 1Gi}}}}}}}}");
    let pool = format!("{{servers: 1, volumesPerServer: 1, {pool} volumeClaimTemplate: {claim}}}");
    format!(
        "apiVersion: minio.min.io/v2\nkind: Tenant\nmetadata: {{name: a}}\nspec: {{pools: [{pool}], {spec} \
         requestAutoCert: false}}\n"
    )
}

/// Checks that as many things are left out as there are beginnings of lines, each with one of them.
fn assert_left_out(lines: &[String], beginnings: &[&str]) {
    let all_begin = lines.iter().zip(beginnings).all(|(line, beginning)| line.starts_with(beginning));
    assert!(lines.len() == beginnings.len() && all_begin, "{lines:#?} are not {beginnings:#?}");
}

#[test]
fn empty_values_of_labels_annotations_and_selectors_are_taken() {
    let marks = json!({"storage.example/only": ""});
    let pool = format!("nodeSelector: {marks}, labels: {marks}, annotations: {marks},");
    let spec = format!("serviceMetadata: {{minioServiceAnnotations: {marks}}},");
    let (cluster, lines) = cluster_of(&tenant_with(&spec, &pool, ""));
    for field in ["nodeSelector", "podLabels", "podAnnotations"] {
        assert_eq!(cluster["pools"][0][field], marks, "{field}");
    }
    assert_eq!(cluster["gateway"]["service"]["annotations"], marks);
    assert_left_out(&lines, &[]);
    let (_, lines) = cluster_of(&tenant_with("logging: {json: false},", "extra: {a: \"\"},", ""));
    assert_left_out(&lines, &["spec.pools[0].extra: ", "spec.logging: "]);
}

#[test]
fn users_and_groups_of_zero_are_taken_or_named() {
    let context = |fields: &str| cluster_of(&tenant_with("", &format!("securityContext: {{{fields}}},"), ""));
    let (cluster, lines) = context("runAsUser: 0, runAsGroup: 0, fsGroup: 0, runAsNonRoot: false");
    assert_eq!(cluster["pools"][0]["podSecurityContext"], json!({"fsGroup": 0}));
    let named = ["runAsUser: no node runs as root", "runAsGroup: no node runs", "runAsNonRoot: it is true"];
    let named = named.map(|field| format!("spec.pools[0].securityContext.{field}"));
    assert_left_out(&lines, &named.each_ref().map(String::as_str));
    let (cluster, lines) = context("runAsUser: 7, runAsGroup: 0, fsGroup: null");
    assert_eq!(cluster["pools"][0]["podSecurityContext"], json!({"runAsUser": 7, "runAsGroup": 0}));
    assert_left_out(&lines, &[]);
}

#[test]
fn parts_of_a_claim_and_of_a_spread_that_have_no_place_are_named() {
    let metadata = "metadata: {creationTimestamp: null, name: data, labels: {a: \"\"}, other: 1},";
    let (_, lines) = cluster_of(&tenant_with("", "", metadata));
    let of_claim = ["metadata.name: ", "metadata.labels: ", "metadata.other: "];
    let of_claim = of_claim.map(|field| format!("spec.pools[0].volumeClaimTemplate.{field}"));
    assert_left_out(&lines, &of_claim.each_ref().map(String::as_str));

    let text = tenant_with("", "", "").replace("resources: ", "storageClassName: \"\", resources: ");
    let (cluster, lines) = cluster_of(&text);
    assert!(cluster["pools"][0]["volumeClaimTemplate"].get("storageClassName").is_none(), "{cluster}");
    assert_left_out(&lines, &["spec.pools[0].volumeClaimTemplate.spec.storageClassName: claims of no class"]);

    let own = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "data"}}});
    let of_minio = json!({"matchLabels": {"v1.min.io/tenant": "a"}});
    let of_minio = json!({"topologyKey": "rack", "labelSelector": of_minio});
    let pool = format!("topologySpreadConstraints: [{own}, {of_minio}],");
    let (cluster, lines) = cluster_of(&tenant_with("", &pool, ""));
    let taken = json!([own, {"topologyKey": "rack"}]);
    assert_eq!(cluster["pools"][0]["topologySpreadConstraints"], taken);
    assert_left_out(&lines, &["spec.pools[0].topologySpreadConstraints[1].labelSelector: "]);
}

#[test]
fn metadata_scheduler_and_root_are_named_but_not_what_a_cluster_adds() {
    let added = "creationTimestamp: now, generation: 2, resourceVersion: \"7\", uid: u, managedFields: [{}]";
    let applied = "kubectl.kubernetes.io/last-applied-configuration: all";
    let with = |annotations: &str, further: &str| {
        let metadata = format!("metadata: {{name: a, {added}, annotations: {{{annotations}}}{further}}}");
        let status = "status: {currentState: Initialized}\n";
        [tenant_with("", "", "").replace("metadata: {name: a}", &metadata), status.to_owned()].concat()
    };
    let (_, lines) = cluster_of(&with(applied, ""));
    assert_left_out(&lines, &[]);
    let text = with(&format!("{applied}, team: \"\""), ", finalizers: [f]");
    let (_, lines) = cluster_of(&format!("{text}scheduler: {{name: s, other: 1}}\nfurther: 1\n"));
    let named = ["metadata.annotations: ", "metadata.finalizers: ", "scheduler.name: ", "scheduler.other: "];
    let named = [&named[..], &["further: "]].concat();
    let named: Vec<String> = named.iter().map(|field| format!("tenant.{field}")).collect();
    assert_left_out(&lines, &named.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn references_are_read_whole_and_a_text_in_place_of_a_list_is_named() {
    let spec = "certConfig: {dnsNames: a.example}, features: {domains: {minio: b.example}}, \
                imagePullSecret: {name: r, other: 1}, configuration: {name: c, other: 1},";
    let text = tenant_with(spec, "", "").replace("requestAutoCert: false", "requestAutoCert: true");
    let (cluster, lines) = cluster_of(&text);
    assert_eq!(cluster["tls"], json!({"mode": "Operator"}));
    let named = [
        "spec.configuration.other: ",
        "spec.configuration: root's keys",
        "spec.certConfig.dnsNames: it must be a list of texts",
        "spec.features.domains.minio: it must be a list of texts",
        "spec.imagePullSecret.other: ",
    ];
    assert_left_out(&lines, &named);
    let (_, lines) = cluster_of(&tenant_with("features: {domains: {minio: [7, c.example]}},", "", ""));
    assert_left_out(&lines, &["spec.features.domains.minio[0]: it must be a text"]);
}

/// Converts a Tenant with these lines as `config.env`, and returns what [`cluster_of`] does.
fn cluster_with_lines(lines: &[&str]) -> (Value, Vec<String>) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"config.env": lines.join("\n")}});
    cluster_of(&format!("{secret}\n---\n{}", tenant_with("configuration: {name: s},", "", "")))
}

#[test]
fn a_secret_shows_names_of_variables_and_no_part_of_a_value() {
    let (cluster, lines) = cluster_with_lines(&[
        "# comment=a",
        "",
        "export MINIO_BROWSER=hidden",
        "MINIO_KEYS=\"aGlkZGVu",
        "c2VjcmV0hidden==",
        "hidden",
        "SElEREVO==",
        "SElEREVOU0VDUkVU==\"",
        "AAAABBBB==",
        "MINIO_ROOT_PASSWORD=hidden",
        "MINIO_ROOT_PASSWORD =hidden",
        "MINIO_DOMAIN=ok.example,hidden/x",
        "MINIO_DOMAIN=https://hidden",
        "MINIO_DOMAIN='One.example, two.example,'",
        "MINIO_REGION=eu MINIO_ROOT_PASSWORD=hidden",
        "MINIO_SITE_REGION=\"eu-1\"",
    ]);
    assert_eq!(cluster["gateway"]["domains"], json!(["one.example", "two.example"]));
    assert_eq!(cluster["config"], json!({"region": "eu-1"}));
    let printed = format!("{cluster}{}", lines.concat());
    for part in ["hidden", "aGlk", "c2Vj", "SElE", "AAAABBBB", "ok.example", "="] {
        assert!(!printed.contains(part), "{part}: {printed}");
    }
    let named = [
        "MINIO_BROWSER is a variable of MinIO",
        "MINIO_KEYS is a variable of MinIO",
        "MINIO_DOMAIN has a value that is no list",
        "MINIO_DOMAIN has a value that is no list",
        "MINIO_REGION has a value that is no region",
        "6 lines that are no variables",
    ];
    let named = named.map(|line| format!("spec.configuration (Secret s): {line}"));
    let root = "spec.configuration: root's keys";
    let all: Vec<&str> = std::iter::once(root).chain(named.iter().map(String::as_str)).collect();
    assert_left_out(&lines, &all);
    let (_, lines) = cluster_with_lines(&["c2VjcmV0==", "MINIO_REGION="]);
    let line = "spec.configuration (Secret s): a line that is no variable";
    let region = "spec.configuration (Secret s): MINIO_REGION has a value that is no region";
    assert_left_out(&lines, &[root, region, line]);
}

#[test]
fn names_and_secrets_that_sherd_does_not_take_are_named() {
    let tenant = json!({
        "apiVersion": "minio.min.io/v2",
        "kind": "Tenant",
        "metadata": {"name": "shop", "namespace": "shop"},
        "spec": {
            "configuration": {"name": "env"},
            "pools": [{"servers": 4, "volumesPerServer": 1, "volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}],
            "buckets": [{"name": "app"}, {"name": "a_b"}, {"name": "app"}, {"name": "x-s3alias"}],
            "users": [{"name": "ada"}, {"name": "eve"}, {"name": "ada"}],
        },
    });
    let secret = |namespace: &str, name: &str, data: serde_json::Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data});
    let text = |value: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, value);
    let keys =
        |id: &str| json!({"CONSOLE_ACCESS_KEY": text(id), "CONSOLE_SECRET_KEY": text("a-long-secret")});
    let file = json!({"items": [
        tenant,
        secret("shop", "env", json!({"config.env": "no base64!"})),
        secret("shop", "ada", keys("odd key!")),
        secret("other", "eve", keys("eve")),
    ]});
    let converted = convert_text(&file.to_string(), None, Path::new("-")).expect("converted");
    let lines: Vec<String> = converted.left_out.iter().map(ToString::to_string).collect();
    for line in [
        "Secret eve: it is of another namespace",
        "spec.buckets[1].name: a_b: no bucket of S3",
        "spec.buckets[2].name: app: no bucket of S3",
        "spec.buckets[3].name: x-s3alias: no bucket of S3",
        "spec.users[0]: Secret ada has what Sherd takes for no id",
        "spec.users[2].name: ada is named twice",
        "spec.configuration (Secret env): it has no text with the key config.env",
    ] {
        assert!(lines.iter().any(|named| named.starts_with(line)), "{line}: {lines:#?}");
    }
    assert_eq!(converted.yaml.matches("kind: Bucket\n").count(), 1);
    assert_eq!(converted.yaml.matches("kind: BucketUser\n").count(), 2);
}
