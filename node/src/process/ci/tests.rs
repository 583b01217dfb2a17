//! Nodes of `ci` and of `server`: their settings, directories and keys.

use super::server::ServerArgs;
use super::*;
use crate::process::config::REGION;
use crate::process::serve::open::store_config;
use sherd_store::machine::system::SystemRng;
use sherd_volume::options;

fn ci(dir: Option<PathBuf>) -> CiArgs {
    CiArgs {
        dir,
        memory: false,
        listen: None,
        admin_listen: None,
        iam_listen: None,
        region: None,
        buckets: None,
        log: LogSettings::default(),
    }
}

fn server(directories: &[&Path]) -> ServerArgs {
    ServerArgs {
        directories: directories.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        address: None,
        console_address: Some(":9001".to_owned()),
        certs_dir: None,
        quiet: false,
        anonymous: false,
        json: false,
    }
}

/// A node by these variables.
fn with<T>(pairs: &[(&str, &str)], make: impl FnOnce(Environment<'_>) -> T) -> T {
    let variable =
        |name: &str| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned());
    let names: Vec<String> = pairs.iter().map(|(name, _)| (*name).to_owned()).collect();
    make(Environment { variable: &variable, names: &names })
}

fn addresses() -> Addresses {
    let (s3, admin) = (S3_EVERYWHERE, ADMIN_ANYWHERE);
    Addresses { s3, tls: false, admin, iam: None, node: None }
}

#[test]
fn a_node_for_tests_leaves_nothing_and_says_its_random_keys() {
    let (path, line) = with(&[], |environment| {
        let node = prepare(ci(None), environment, Variables::default(), &SystemRng).expect("a node");
        assert_eq!(node.config.durability, options::Durability::None);
        let files = store_config(&node.config).options;
        assert_eq!((files.segment_bytes, files.ballast_bytes, files.spare_segments), (16 << 20, 16 << 20, 2));
        assert!(files.reserve_bytes + 16 * files.segment_bytes < limits::MEMORY_BYTES_MIN);
        assert!(node.first_line.starts_with("sherd-node ci: durability = none"), "{}", node.first_line);
        assert_eq!((node.config.volumes.len(), node.config.region.as_str()), (4, REGION));
        assert!(node.config.s3.health_paths);
        let path = node.config.volumes[0].clone();
        assert!(path.is_dir());
        (path, node.ready(addresses()))
    });
    assert!(!path.exists());
    assert!(line.starts_with("ready http://127.0.0.1:9000 region=us-east-1 access_key_id="), "{line}");
}

#[test]
fn keys_and_a_region_that_are_given_are_not_said_again() {
    let given = [
        ("MINIO_ROOT_USER", "minioadmin"),
        ("MINIO_ROOT_PASSWORD", "minioadmin"),
        ("MINIO_REGION", "eu-west-1"),
        ("MINIO_DEFAULT_BUCKETS", "one:public"),
        ("MINIO_BROWSER", "off"),
        ("SHERD_CLUSTER_NAME", "a"),
        ("MINIO_ADDRESS", "127.0.0.1:1"),
        ("MINIO_VOLUMES", "/data"),
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    with(&given, |environment| {
        let kept = ci(Some(dir.path().to_owned()));
        let node = prepare(kept, environment, Variables::default(), &SystemRng).expect("a node");
        assert_eq!(node.config.credentials.first.access_key_id, "minioadmin");
        assert_eq!(node.config.s3.first_buckets[0].name, "one");
        assert_eq!(node.config.s3.unsupported_acl, sherd_s3::service::UnsupportedAcl::Ignore);
        assert_eq!(node.config.listen.to_string(), "127.0.0.1:1");
        assert_eq!(node.ready(addresses()), "ready http://127.0.0.1:9000 region=eu-west-1\n");
        let unused = node.first_line.lines().nth(1);
        assert_eq!(
            unused,
            Some("sherd-node ci: does not use SHERD_CLUSTER_NAME, MINIO_BROWSER, MINIO_VOLUMES")
        );
    });
    assert!(dir.path().join("v1").is_dir());
}

#[test]
fn a_server_is_durable_and_names_what_it_does_not_use() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let start = || {
        with(&[], |environment| {
            server::prepare(server(&[dir.path()]), environment, Variables::default(), &SystemRng)
        })
    };
    let (first, second) = (start().expect("a node"), start().expect("the same"));
    assert_eq!(first.config.credentials, second.config.credentials);
    assert_eq!(first.config.durability, options::Durability::Fsync);
    assert_eq!(first.config.shape.geometry.parity_shards(), 0);
    assert!(first.first_line.contains("does not use --console-address"), "{}", first.first_line);
    assert_eq!(first.config.s3.unsupported_acl, sherd_s3::service::UnsupportedAcl::Refuse);
    let secret = first.config.credentials.first.secret_access_key.expose();
    assert!(!(first.ready(addresses()) + &first.first_line).contains(secret));
}

#[test]
fn a_server_takes_no_directory_of_minio_and_keeps_no_only_key_on_one_disk_of_many() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let disks: Vec<PathBuf> = (1..=4).map(|number| dir.path().join(format!("d{number}"))).collect();
    let named: Vec<&Path> = disks.iter().map(PathBuf::as_path).collect();
    let start = |pairs: &[(&str, &str)], named: &[&Path]| {
        with(pairs, |environment| {
            server::prepare(server(named), environment, Variables::default(), &SystemRng)
        })
    };
    let absent = || CiError::Directories(InvalidVolumes::Absent { path: disks[0].clone() }).to_string();
    assert_eq!(start(&[], &named).expect_err("not mounted").to_string(), absent());
    for disk in &disks {
        std::fs::create_dir(disk).expect("a new directory");
    }
    assert!(matches!(start(&[], &named), Err(CiError::Keys)));
    let keys = [("MINIO_ROOT_USER", "minio"), ("MINIO_ROOT_PASSWORD", "minio123")];
    let node = start(&keys, &named).expect("a node");
    assert_eq!(node.config.shape.geometry.parity_shards(), 2);
    assert!(node.config.master_key.is_none());
    // A filesystem that is not mounted leaves its directory empty, beside a volume that was used.
    std::fs::write(disks[0].join("sherd/volume.json"), "{}").expect("a new file");
    std::fs::remove_dir(disks[1].join("sherd")).expect("it is empty");
    let refused = start(&keys, &named).expect_err("a volume is missing").to_string();
    assert!(refused.contains("d2/sherd does not exist: mount or make it first"), "{refused}");
    assert!(!disks[1].join("sherd").exists());
    std::fs::create_dir(disks[2].join(".minio.sys")).expect("a new directory");
    let Err(CiError::Foreign { path }) = start(&keys, &named) else { panic!("the data of MinIO") };
    assert!(path.ends_with("d3"), "{path:?}");
}

#[test]
fn volumes_of_a_durable_node_and_its_variables_are_no_place_for_tests() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let start = |pairs: &[(&str, &str)]| {
        let kept = ci(Some(dir.path().to_owned()));
        with(pairs, |environment| prepare(kept, environment, Variables::default(), &SystemRng))
    };
    for name in REFUSED {
        let Err(CiError::OfServe(said)) = start(&[(name, "1")]) else { panic!("{name}") };
        assert_eq!(said, name);
    }
    std::fs::create_dir(dir.path().join("v3")).expect("a new directory");
    std::fs::write(dir.path().join("v3/volume.json"), "{}").expect("a new file");
    assert!(matches!(start(&[]), Err(CiError::NotOfCi { .. })));
    std::fs::remove_file(dir.path().join("v3/volume.json")).expect("the file is mine");
    start(&[]).expect("empty directories");
    std::fs::write(dir.path().join("v3/volume.json"), "{}").expect("a new file");
    start(&[]).expect("its own volumes");
}
