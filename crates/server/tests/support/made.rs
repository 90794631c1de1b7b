//! Certificates, made by openssl, and clients that trust them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// Makes an authority: `NAME.pem` and `NAME.key`.
pub fn authority(folder: &Path, name: &str) {
    let words = format!("req -x509 -days 2 -subj /CN={name} {KEY} -keyout {name}.key -out {name}.pem");
    openssl(folder, &words);
}

/// Makes a certificate that an authority has signed, for this machine: `NAME.pem` and `NAME.key`.
pub fn signed(folder: &Path, name: &str, authority: &str) {
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(folder, &format!("req -subj /CN={name} {KEY} -keyout {name}.key -out {name}.csr"));
    openssl(
        folder,
        &format!(
            "x509 -req -days 2 -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -extfile names \
             -out {name}.pem"
        ),
    );
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Puts a pair in the place of another, key first, each whole, as programs that renew certificates do.
pub fn replace(folder: &Path, old: &str, new: &str) {
    for kind in ["key", "pem"] {
        fs::copy(folder.join(format!("{new}.{kind}")), folder.join("moving")).unwrap();
        fs::rename(folder.join("moving"), folder.join(format!("{old}.{kind}"))).unwrap();
    }
}

/// A client that trusts this authority, and shows that certificate if asked.
pub fn client(
    folder: &Path,
    trusts: &str,
    shows: Option<&str>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join(format!("{trusts}.pem"))).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
    let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    let config = match shows {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(folder.join(format!("{name}.pem"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.into()
}
