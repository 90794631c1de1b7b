//! TLS certificates for one server, signed by its own CA.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths of the PEM files.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    /// Generates the files in `dir`, for `127.0.0.1` and `localhost`.
    pub(super) fn generate(dir: &Path) -> io::Result<Self> {
        fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")?;
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=Tests", "-keyout", "ca.key", "-out", "ca.pem"];
        let request = ["req", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"];
        let sign = "x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names \
                    -out server.pem";
        openssl(dir, authority.iter().chain(&key))?;
        openssl(dir, request.iter().chain(&key))?;
        openssl(dir, sign.split_whitespace().collect::<Vec<_>>().iter())?;
        let at = |name| dir.join(name);
        Ok(Self { ca: at("ca.pem"), certificate: at("server.pem"), key: at("server.key") })
    }
}

fn openssl<'a>(dir: &Path, args: impl Iterator<Item = &'a &'a str>) -> io::Result<()> {
    let output = Command::new("openssl").args(args).current_dir(dir).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("openssl: {}", String::from_utf8_lossy(&output.stderr))))
}
