//! Compiles the .proto files, without a protoc on the machine: `protox` parses them in this process.

use std::error::Error;
use std::path::Path;

const FILES: [&str; 5] = ["value", "shard", "register", "upkeep", "admin"];
/// Methods of `ShardService` that carry the bytes of shards past the codec: `frame` reads and writes their
/// messages, so neither a client nor a server is generated for them.
const PAST_THE_CODEC: [&str; 2] = ["Write", "Read"];

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<_> = FILES.iter().map(|name| format!("sherd/v1/{name}.proto")).collect();
    for file in &files {
        println!("cargo::rerun-if-changed={file}");
    }
    let mut descriptors = protox::compile(&files, ["."])?;
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(
        Path::new(&out).join("descriptors.bin"),
        protox::prost::Message::encode_to_vec(&descriptors),
    )?;
    for service in descriptors.file.iter_mut().flat_map(|file| &mut file.service) {
        if service.name() == "ShardService" {
            service.method.retain(|method| !PAST_THE_CODEC.contains(&method.name()));
        }
    }
    tonic_prost_build::configure()
        .bytes(".")
        .build_client(true)
        .build_server(true)
        .compile_fds(descriptors)?;
    Ok(())
}
