//! Compiles the service's description; needs no `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let description = protox::compile(["proto/quotes.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(description)?;
    Ok(())
}
