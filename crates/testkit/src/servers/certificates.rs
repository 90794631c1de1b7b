//! Certificates for one server, signed by an authority of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files in PEM.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Certificates {
    /// Makes them in `folder`, for `127.0.0.1` and `localhost`.
    pub(super) fn make(folder: &Path) -> io::Result<Self> {
        fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")?;
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=Tests", "-keyout", "ca.key", "-out", "ca.pem"];
        let request = ["req", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"];
        let sign = "x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names \
                    -out server.pem";
        openssl(folder, authority.iter().chain(&key))?;
        openssl(folder, request.iter().chain(&key))?;
        openssl(folder, sign.split_whitespace().collect::<Vec<_>>().iter())?;
        let at = |name| folder.join(name);
        Ok(Self { authority: at("ca.pem"), certificate: at("server.pem"), key: at("server.key") })
    }
}

fn openssl<'a>(folder: &Path, words: impl Iterator<Item = &'a &'a str>) -> io::Result<()> {
    let output = Command::new("openssl").args(words).current_dir(folder).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("openssl: {}", String::from_utf8_lossy(&output.stderr))))
}
