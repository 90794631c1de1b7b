//! Compiles the descriptions of Envoy's rate limit service; needs no `protoc`.

use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("envoy/service/ratelimit/v3/rls.proto")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // What reflection tells.
    fs::write(out.join("rls.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        // The server dispatches by itself; the client is for tests.
        .build_server(false)
        .client_mod_attribute(".", "#[cfg(test)]")
        .include_file("rls.rs")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
