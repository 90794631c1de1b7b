//! Compiles the protobuf files of Envoy's rate limit service for the baseline service and the client; needs no
//! `protoc`.

const PROTO: &str = "../crates/server/proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={PROTO}");
    let descriptors = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], [PROTO])?;
    tonic_prost_build::configure().include_file("rls.rs").compile_fds(descriptors)?;
    Ok(())
}
