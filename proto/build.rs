//! Compiles the .proto files, without a protoc on the machine: `protox` parses them in this process.

use std::error::Error;
use std::path::Path;

const FILES: [&str; 5] = ["value", "shard", "register", "upkeep", "admin"];

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<_> = FILES.iter().map(|name| format!("sherd/v1/{name}.proto")).collect();
    for file in &files {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["."])?;
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(
        Path::new(&out).join("descriptors.bin"),
        protox::prost::Message::encode_to_vec(&descriptors),
    )?;
    tonic_prost_build::configure()
        .bytes(".")
        .build_client(true)
        .build_server(true)
        .compile_fds(descriptors)?;
    Ok(())
}
