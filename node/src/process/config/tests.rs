//! From a written file to a valid configuration, and what is refused on the way.

use super::*;

fn pair() -> Option<Credentials> {
    let variable = |name: &str| {
        Some(if name == credentials::ACCESS_KEY_VARIABLE { "root".into() } else { "long-enough".into() })
    };
    Credentials::from_variables(&variable).expect("a valid pair")
}

/// Data and parity shards.
fn shards(config: &Config) -> (usize, usize) {
    (config.shape.geometry.data_shards(), config.shape.geometry.parity_shards())
}

/// Volumes v1 to v4, and a file beside them.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for number in 1..=4 {
            std::fs::create_dir(dir.path().join(format!("v{number}"))).expect("a new directory");
        }
        Self(dir)
    }

    fn volumes(&self) -> String {
        format!("volumes = \"{}/v{{1...4}}\"\n", self.0.path().display())
    }

    fn resolve(&self, rest: &str) -> Result<Config, ConfigError> {
        let path = self.0.path().join("sherd.toml");
        std::fs::write(&path, self.volumes() + rest).expect("a new file");
        let mut sources = Sources::default();
        let settings = sources.read_file(&path)?;
        Config::resolve(settings, pair(), &sources)
    }

    fn refusal(&self, rest: &str) -> String {
        let text = self.resolve(rest).expect_err("not valid").to_string();
        text.replace(self.0.path().to_str().expect("made from text"), "DIR")
    }
}

#[test]
fn volumes_and_credentials_are_enough() {
    let config = Machine::new().resolve("").expect("valid");
    assert_eq!(config.volumes.len(), 4);
    assert_eq!((config.shape.sets, shards(&config)), (1, (2, 2)));
    assert_eq!(config.listen.to_string(), "127.0.0.1:9000");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:9200");
    assert_eq!(config.region, "us-east-1");
    assert_eq!((config.durability, config.etag), (Durability::Fsync, EtagForm::Md5));
    assert_eq!(config.inline_bytes_max, 32 << 10);
    assert_eq!(config.pack_bytes_max, 256 << 10);
    assert_eq!(config.upkeep.release_grace, Duration::from_mins(10));
    assert_eq!(config.upkeep.adopt_after, Duration::from_mins(10));
    assert_eq!(config.upkeep.heal_bytes_per_second, 0, "clients' latencies alone decide");
    assert_eq!((config.audit, config.trusted_proxies), (None, TrustedProxies::default()));
    let stdout = Machine::new().resolve("audit_log = \"-\"").expect("valid");
    assert_eq!(stdout.audit, Some(AuditTarget::Stdout));
    let relative = Machine::new().resolve("audit_log = \"audit.log\"").expect("valid").audit;
    assert!(matches!(relative, Some(AuditTarget::File(path)) if path.is_absolute()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "every key there is")]
fn every_key_can_be_written() {
    let text = r#"
        parity = 1
        listen = "0.0.0.0:9000"
        admin_listen = "[::]:9200"
        node_listen = "127.0.0.1:9100"
        region = "eu-central-1"
        domains = ["s3.example.com"]
        audit_log = "/var/log/sherd/audit.log"
        trusted_proxies = ["10.0.0.0/8", "fd00::1"]
        durability = "none"
        etag = "fast"
        inline_max = "16KiB"
        pack_max = 65536
        buffer_cap = "1GiB"
        index_cache = "8MiB"
        shutdown_delay = "3s"
        shutdown_timeout = "5s"
        [tls]
        cert = "pki/s3.crt"
        key = "/pki/s3.key"
        further = ["/pki/b", "pki/c"]
        [cluster]
        id = "6a0812f15d1e119c43c3e498e22f294a"
        name = "demo"
        nodes = ["n1@127.0.0.1:9100", "n2@127.0.0.1:9101"]
        node = "n2"
        set_size = 4
        ca = "pki/ca.crt"
        cert = "/pki/n2.crt"
        key = "/pki/n2.key"
        reconnect_after = "20s"
        [limits]
        connections_max = 10
        requests_max = 5
        queue_max = 0
        idle_timeout = "2s"
        stall_timeout = "3s"
        [upkeep]
        release_grace = "3m"
        scrub_period = "7days"
        heal_bandwidth = "10MiB"
        adopt_after = "30s"
        [log]
        format = "json"
        level = "warn,sherd_node=debug"
        slow_request = "250ms"
    "#;
    let config = Machine::new().resolve(text).expect("valid");
    assert_eq!(shards(&config), (3, 1));
    assert_eq!(config.admin_listen.to_string(), "[::]:9200");
    let cluster = config.cluster.clone().expect("it is written");
    assert_eq!(cluster.id.to_string(), "6a0812f15d1e119c43c3e498e22f294a");
    assert_eq!((cluster.name.as_str(), cluster.node, cluster.own().name.as_str()), ("demo", 1, "n2"));
    assert_eq!(cluster.nodes[0].address, "127.0.0.1:9100");
    assert_eq!((cluster.set_size, config.shape.sets), (Some(4), 2));
    assert_eq!(cluster.node_listen.to_string(), "127.0.0.1:9100");
    assert_eq!(cluster.reconnect_after, Duration::from_secs(20));
    let files = cluster.files.expect("they are written");
    assert!(files.ca.is_absolute() && files.ca.ends_with("pki/ca.crt"), "{files:?}");
    assert_eq!((files.cert.to_str(), files.key.to_str()), (Some("/pki/n2.crt"), Some("/pki/n2.key")));
    let tls = config.tls.expect("it is written");
    assert!(tls.first.cert.is_absolute() && tls.first.cert.ends_with("pki/s3.crt"), "{tls:?}");
    assert_eq!(tls.first.key.to_str(), Some("/pki/s3.key"));
    assert_eq!(tls.further[0].key.to_str(), Some("/pki/b/tls.key"));
    assert!(tls.further[1].cert.is_absolute() && tls.further[1].cert.ends_with("pki/c/tls.crt"), "{tls:?}");
    assert_eq!(config.domains, ["s3.example.com"]);
    assert_eq!(config.audit, Some(AuditTarget::File("/var/log/sherd/audit.log".into())));
    let proxies = ["10.0.0.0/8", "fd00::1/128"].map(|text| text.parse().expect("a network"));
    assert_eq!(config.trusted_proxies, TrustedProxies::new(proxies));
    assert_eq!((config.durability, config.etag), (Durability::None, EtagForm::Fast));
    assert_eq!((config.inline_bytes_max, config.pack_bytes_max), (16 << 10, 64 << 10));
    assert_eq!((config.buffer_bytes_max, config.index_cache_bytes), (1 << 30, 8 << 20));
    assert_eq!(config.shutdown_delay, Duration::from_secs(3));
    assert_eq!(config.shutdown_timeout, Duration::from_secs(5));
    let limits = Limits {
        connections_max: 10,
        requests_max: 5,
        queue_max: 0,
        idle_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_secs(3),
    };
    assert_eq!(config.limits, limits);
    assert_eq!(config.upkeep.scrub_period, Duration::from_hours(168));
    assert_eq!(config.upkeep.heal_bytes_per_second, 10 << 20);
    assert_eq!(config.upkeep.adopt_after, Duration::from_secs(30));
    let slow_request = Duration::from_millis(250);
    assert_eq!(
        config.log,
        Log { format: LogFormat::Json, level: "warn,sherd_node=debug".into(), slow_request }
    );
}

#[test]
fn an_unknown_key_is_refused_with_its_name_and_line() {
    let text = Machine::new().refusal("\nparity = 2\ncolour = \"red\"\n");
    assert!(text.starts_with("DIR/sherd.toml:4: unknown field `colour`"), "{text}");
    let text = Machine::new().refusal("[limits]\nspeed = 1\n");
    assert!(text.starts_with("DIR/sherd.toml:3: unknown field `speed`"), "{text}");
}

#[test]
fn tls_needs_a_certificate_and_a_key() {
    let machine = Machine::new();
    assert!(machine.resolve("").expect("valid").tls.is_none());
    for (written, missing) in [("cert = \"a.crt\"", "tls.key"), ("key = \"a.key\"", "tls.cert")] {
        let text = machine.refusal(&format!("[tls]\n{written}\n"));
        assert_eq!(text, format!("{missing}: missing: TLS needs `tls.cert` and `tls.key`"));
    }
    let text = machine.refusal("[tls]\nfurther = [\"/pki/b\"]\n");
    assert_eq!(text, "tls.cert: missing: TLS needs `tls.cert` and `tls.key`");
    let many = format!("[tls]\ncert = \"/a\"\nkey = \"/b\"\nfurther = \"{}\"\n", ["/c"; 17].join(","));
    assert_eq!(machine.refusal(&many), "DIR/sherd.toml:5: tls.further: 17 is outside 0 to 16");
    let text = machine.refusal("[tls]\nca = \"ca.crt\"\n");
    assert!(text.starts_with("DIR/sherd.toml:3: unknown field `ca`"), "{text}");
}

#[test]
fn a_malformed_value_is_refused_with_its_line() {
    let text = Machine::new().refusal("buffer_cap = \"much\"\n");
    assert!(text.starts_with("DIR/sherd.toml:2: ") && text.contains("\"much\" is not a size"), "{text}");
    assert!(text.contains("buffer_cap"), "{text}");
    let text = Machine::new().refusal("[limits]\nidle_timeout = \"soon\"\n");
    assert!(text.contains("sherd.toml:3: ") && text.contains("not a span of time"), "{text}");
    let text = Machine::new().refusal("durability = \"maybe\"\n");
    assert!(text.contains("sherd.toml:2: ") && text.contains("`maybe`"), "{text}");
}

#[test]
fn a_value_out_of_range_is_refused_with_its_place_and_bounds() {
    for (written, expected) in [
        ("inline_max = \"1MiB\"", "DIR/sherd.toml:2: inline_max: 1MiB is outside 0 to 32KiB"),
        ("buffer_cap = 1", "DIR/sherd.toml:2: buffer_cap: 1 is outside 32MiB to 1TiB"),
        (
            "[upkeep]\nrelease_grace = \"1s\"",
            "DIR/sherd.toml:3: upkeep.release_grace: 1s is outside 2m to 1day",
        ),
        (
            "[limits]\nconnections_max = 0",
            "DIR/sherd.toml:3: limits.connections_max: 0 is outside 1 to 1048576",
        ),
        ("parity = 4", "DIR/sherd.toml:2: parity: 4 parity shards in a set of 4 volumes leave no data shard"),
        ("region = \"EU West\"", "DIR/sherd.toml:2: region: \"EU West\" is not a region"),
        ("domains = \"a..b\"", "DIR/sherd.toml:2: domains: \"a..b\" is not a domain name"),
        (
            "trusted_proxies = \"10.0.0.0/8,proxy\"",
            "DIR/sherd.toml:2: trusted_proxies: \"proxy\" is no network of addresses",
        ),
        (
            "admin_listen = \"127.0.0.1:9000\"",
            "DIR/sherd.toml:2: admin_listen: 127.0.0.1:9000 is the address of the S3 listener too",
        ),
        ("[log]\nlevel = \"a=b=c\"", "DIR/sherd.toml:3: log.level: \"a=b=c\" is not a log filter"),
    ] {
        let text = Machine::new().refusal(written);
        assert!(text.starts_with(expected), "{written}: {text}");
    }
}

/// Table `[cluster]` of two nodes, as the first of them has it, with `replaced` in place of a line.
fn a_cluster(node: &str, replaced: &str) -> String {
    let line = |key: &str, value: &str| format!("{key} = \"{value}\"");
    let lines = [
        line("id", "6a0812f15d1e119c43c3e498e22f294a"),
        line("nodes", "n{1...2}@127.0.0.1:{9100...9101}"),
        line("node", node),
        line("ca", "/pki/ca.crt"),
        line("cert", &format!("/pki/{node}.crt")),
        line("key", &format!("/pki/{node}.key")),
    ];
    let key = replaced.split(" =").next().unwrap_or_default();
    let lines: Vec<_> = lines
        .into_iter()
        .map(|line| if line.split(" =").next() == Some(key) { replaced.to_owned() } else { line })
        .collect();
    format!("[cluster]\n{}\n", lines.join("\n"))
}

#[test]
fn the_geometry_is_that_of_all_nodes() {
    let machine = Machine::new();
    let config = machine.resolve(&a_cluster("n1", "")).expect("valid");
    // Two nodes with four volumes each: one set of eight.
    assert_eq!((config.shape.sets, shards(&config)), (1, (4, 4)));
    let cluster = config.cluster.expect("it is written");
    assert_eq!((cluster.name.as_str(), cluster.reconnect_after), ("sherd", Duration::from_hours(1)));
    assert!(machine.resolve("").expect("valid").cluster.is_none());
    let text = machine.refusal(&(a_cluster("n1", "") + "set_size = 5\n"));
    assert!(text.starts_with("DIR/sherd.toml:9: cluster.set_size: 5 is no set size"), "{text}");
    for value in ["19s", "61m"] {
        let text = machine.refusal(&(a_cluster("n1", "") + &format!("reconnect_after = \"{value}\"\n")));
        assert!(text.starts_with("DIR/sherd.toml:9: cluster.reconnect_after: "), "{text}");
        assert!(text.contains("is not within 20s to 1h"), "{text}");
    }
}

#[test]
fn a_node_of_a_cluster_is_refused_with_the_key_that_has_to_change() {
    let machine = Machine::new();
    for (replaced, expected) in [
        ("node = \"n3\"", "DIR/sherd.toml:5: cluster.node: \"n3\" is not one of the nodes: n1, n2"),
        ("node = \"\"", "DIR/sherd.toml:5: cluster.node: \"\" is not one of the nodes: n1, n2"),
        ("id = \"12\"", "DIR/sherd.toml:3: cluster.id: \"12\" is not the id of a cluster"),
        ("nodes = \"n1\"", "DIR/sherd.toml:4: cluster.nodes: \"n1\" is not written name@host:port"),
        ("nodes = []", "DIR/sherd.toml:4: cluster.nodes: 0 nodes are not 1 to 1024"),
    ] {
        let text = machine.refusal(&a_cluster("n1", replaced));
        assert!(text.starts_with(expected), "{replaced}: {text}");
    }
    for (absent, expected) in [
        ("id = ", "cluster.id: missing: a cluster needs `cluster.id` and `cluster.nodes`"),
        ("nodes = ", "cluster.nodes: missing: a cluster needs"),
        ("node = ", "cluster.node: missing: which of the 2 nodes is this one"),
        ("ca = ", "cluster.ca: missing: several nodes need"),
        ("cert = ", "cluster.cert: missing: several nodes need"),
        ("key = ", "cluster.key: missing: several nodes need"),
    ] {
        let text = a_cluster("n1", "");
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with(absent))
            .map(|line| line.to_owned() + "\n")
            .collect();
        let text = machine.refusal(&text);
        assert!(text.starts_with(expected), "{absent}: {text}");
    }
    let text = machine.refusal("node_listen = \"127.0.0.1:9100\"\n");
    assert!(text.starts_with("DIR/sherd.toml:2: node_listen: there is no table [cluster]"), "{text}");
    let text = machine.refusal(&("node_listen = \"127.0.0.1:9200\"\n".to_owned() + &a_cluster("n1", "")));
    assert!(text.contains("node_listen: 127.0.0.1:9200 is the address of the admin listener too"), "{text}");
}

#[test]
fn one_node_needs_no_certificates() {
    let text = "[cluster]\nid = \"6a0812f15d1e119c43c3e498e22f294a\"\nnodes = \"only@localhost:9100\"\n";
    let cluster = Machine::new().resolve(text).expect("valid").cluster.expect("it is written");
    assert_eq!((cluster.node, cluster.files), (0, None));
    assert_eq!(cluster.node_listen.to_string(), "[::]:9100");
}

#[test]
fn the_digest_is_of_what_all_nodes_share() {
    let machine = Machine::new();
    let digest = |text: &str| machine.resolve(text).expect("valid").digest();
    let first = digest(&a_cluster("n1", ""));
    assert_eq!(first, digest(&a_cluster("n2", "")));
    let elsewhere = "nodes = \"n{1...2}@10.0.0.{1...2}:9100\"";
    assert_eq!(first, digest(&a_cluster("n1", elsewhere)));
    let default_parity = "parity = 4\n".to_owned() + &a_cluster("n1", "");
    assert_eq!(first, digest(&default_parity), "the default, written out");
    for other in [
        a_cluster("n1", "id = \"00000000000000000000000000000001\""),
        a_cluster("n1", "nodes = [\"n2@h:1\", \"n1@h:2\"]"),
        a_cluster("n1", "") + "name = \"other\"\n",
        a_cluster("n1", "") + "set_size = 4\n",
        "parity = 3\n".to_owned() + &a_cluster("n1", ""),
        "region = \"other\"\n".to_owned() + &a_cluster("n1", ""),
        String::new(),
    ] {
        assert_ne!(first, digest(&other), "{other}");
    }
}

#[test]
fn a_missing_volume_names_where_the_volumes_were_written() {
    let machine = Machine::new();
    std::fs::remove_dir(machine.0.path().join("v3")).expect("an empty directory");
    assert_eq!(
        machine.refusal(""),
        "DIR/sherd.toml:1: volumes: DIR/v3 does not exist: mount or make it first"
    );
}

#[test]
fn without_credentials_nothing_starts() {
    let machine = Machine::new();
    let volumes = toml::from_str::<Settings>(&machine.volumes()).expect("valid");
    let error = Config::resolve(volumes, None, &Sources::default()).expect_err("there is no default");
    assert!(matches!(error, ConfigError::Credentials(credentials::InvalidCredentials::Absent)), "{error}");
}

#[test]
fn what_is_set_above_wins_over_what_is_set_below() {
    let above: Settings = toml::from_str("parity = 1\n[log]\nlevel = \"warn\"").expect("valid");
    let below: Settings =
        toml::from_str("parity = 2\nregion = \"x\"\n[log]\nformat = \"json\"\nlevel = \"info\"")
            .expect("valid");
    let both = above.or(below);
    assert_eq!((both.parity, both.region.as_deref()), (Some(1), Some("x")));
    assert_eq!((both.log.level.as_deref(), both.log.format), (Some("warn"), Some(LogFormat::Json)));
}
