//! Test certificates made with openssl, and TLS client configurations that trust them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// Creates a CA: `NAME.pem` and `NAME.key`.
pub fn create_ca(dir: &Path, name: &str) {
    let words = format!("req -x509 -days 2 -subj /CN={name} {KEY_OPTIONS} -keyout {name}.key -out {name}.pem");
    openssl(dir, &words);
}

/// Creates a certificate for localhost signed by a CA: `NAME.pem` and `NAME.key`.
pub fn create_signed(dir: &Path, name: &str, ca: &str) {
    fs::write(dir.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(dir, &format!("req -subj /CN={name} {KEY_OPTIONS} -keyout {name}.key -out {name}.csr"));
    openssl(
        dir,
        &format!(
            "x509 -req -days 2 -in {name}.csr -CA {ca}.pem -CAkey {ca}.key -CAcreateserial -extfile names \
             -out {name}.pem"
        ),
    );
}

const KEY_OPTIONS: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn openssl(dir: &Path, args: &str) {
    let output = Command::new("openssl").args(args.split_whitespace()).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Replaces a key pair with another: key first, each file atomically, as ACME clients do.
pub fn replace_pair(dir: &Path, old: &str, new: &str) {
    for kind in ["key", "pem"] {
        fs::copy(dir.join(format!("{new}.{kind}")), dir.join("moving")).unwrap();
        fs::rename(dir.join("moving"), dir.join(format!("{old}.{kind}"))).unwrap();
    }
}

/// Client configuration that trusts a CA and optionally presents a certificate.
pub fn client_config(
    dir: &Path,
    trusted_ca: &str,
    client_certificate: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.join(format!("{trusted_ca}.pem"))).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    let config = match client_certificate {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(dir.join(format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(dir.join(format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.into()
}
