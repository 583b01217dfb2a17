//! Every layer for a moment: that it runs, verifies its bytes and leaves its rows. No figure is judged.

use super::*;

fn arguments(dir: &Path, layer: Layer) -> Arguments {
    Arguments {
        layer: vec![layer],
        size: vec![Size(4 << 10), Size(64 << 10)],
        clients: vec![1, 8],
        seconds: 1.0,
        moment: true,
        sites: 0,
        dir: dir.to_owned(),
        out: dir.to_owned(),
    }
}

/// Measures a layer for a moment and looks at its rows.
fn moment(layer: Layer) {
    let dir = tempfile::tempdir().expect("a directory");
    let results = measure(arguments(dir.path(), layer)).expect("the layer runs");
    for size in ["4KiB", "64KiB"] {
        for op in ["put", "get"] {
            for clients in ["1", "8"] {
                let labels = [("layer", layer.label()), ("op", op), ("size", size), ("clients", clients)];
                let rows: Vec<&Row> = results.rows.iter().filter(|row| row.is(&labels)).collect();
                let [row] = rows.as_slice() else { panic!("{} rows of {labels:?}", rows.len()) };
                let ops = row.figure("ops").expect("a figure");
                assert!(ops >= clients.parse().expect("a number"), "{row:?}");
                for name in ["ops_s", "mib_s", "p50_us", "p99_us", "p999_us", "allocs_op", "alloc_bytes_op"] {
                    assert!(row.figure(name).is_some_and(f64::is_finite), "{name} in {row:?}");
                }
            }
        }
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a directory").collect();
    assert!(left.is_empty(), "volumes are removed: {left:?}");
}

#[test]
fn http_runs_for_a_moment() {
    moment(Layer::Http);
}

#[test]
fn the_protocol_runs_for_a_moment() {
    moment(Layer::Protocol);
}

#[test]
fn the_storage_runs_for_a_moment() {
    moment(Layer::Storage);
}

#[test]
fn hashing_and_erasure_run_for_a_moment() {
    moment(Layer::Memory);
}

#[test]
fn the_disk_runs_for_a_moment_in_every_home() {
    moment(Layer::Disk);
    assert_eq!(disk::writes(4 << 10), ["put", "put-packed", "put-file"]);
    assert_eq!(disk::writes(64 << 10), ["put", "put-file"]);
    assert_eq!(disk::writes(128 << 10), ["put", "put-file"]);
    assert_eq!(disk::writes(1 << 20), ["put"]);
}

#[test]
fn the_service_in_process_runs_for_a_moment() {
    moment(Layer::Process);
}

#[test]
fn the_sdk_runs_for_a_moment() {
    moment(Layer::Sdk);
}

#[test]
fn the_whole_node_runs_for_a_moment() {
    moment(Layer::Node);
}

#[test]
fn what_is_asked_for_is_measured_and_nothing_else() {
    let dir = Path::new("/tmp");
    let mut session = Session::new(Arguments { moment: false, ..arguments(dir, Layer::Storage) });
    assert_eq!(session.cells(Layer::Storage, 4 << 10).len(), 4);
    assert_eq!(session.cells(Layer::Storage, 1 << 20), []);
    assert_eq!(session.cells(Layer::Disk, 4 << 10), []);
    session.arguments.clients = vec![128];
    assert_eq!(session.cells(Layer::Storage, 4 << 10), [(Op::Put, 128), (Op::Get, 128)]);
    session.arguments =
        Arguments { layer: Vec::new(), size: Vec::new(), clients: Vec::new(), ..session.arguments };
    assert_eq!(session.cells(Layer::Storage, 1 << 30), [(Op::Put, 1), (Op::Get, 1)]);
    assert_eq!(session.cells(Layer::Memory, 4 << 10).len(), 4);
    session.arguments.moment = true;
    assert_eq!(session.cells(Layer::Storage, 1 << 30), []);
}

#[test]
fn clients_never_write_the_same_object() {
    let mut session = Session::new(arguments(Path::new("/tmp"), Layer::Storage));
    let mut numbers: Vec<u64> = Vec::new();
    for _ in 0..2 {
        for mut work in session.team(Op::Put, 4096, 3) {
            numbers.extend([work.next(), work.next()]);
        }
    }
    let mut filling = session.filling(4096);
    numbers.extend([filling.next(), filling.next()]);
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
}

#[test]
fn layers_and_sizes_are_known_by_their_labels() {
    for layer in Layer::ALL {
        assert_eq!(layer.label().parse::<Layer>().ok(), Some(layer));
    }
    for size in SIZES.map(Size) {
        assert_eq!(size.to_string().parse::<Size>().ok(), Some(size));
    }
    assert!("L9".parse::<Layer>().is_err_and(|error| error.to_string().contains("L1, L2")));
    assert!("5KiB".parse::<Size>().is_err());
}
