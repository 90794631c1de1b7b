//! Test certificates for one server, signed by a CA of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A folder with `ca.pem`, `server.pem` and `server.key`; removed on drop.
pub(super) struct Certificates(PathBuf);

impl Certificates {
    /// Creates certificates for these names, such as `IP:127.0.0.1`.
    pub(super) fn make(names: &str) -> Self {
        Self::until(names, 2099)
    }

    /// Creates certificates for these names, valid from 2020 to the end of this year.
    pub(super) fn until(names: &str, year: u16) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let result = Self(env::temp_dir().join(format!("sluicegate-upstream-{}-{index}", process::id())));
        // Left over from a killed process with the same ID.
        drop(fs::remove_dir_all(&result.0));
        fs::create_dir(&result.0).unwrap();
        let write = |name: &str, text: &str| fs::write(result.0.join(name), text).unwrap();
        write("names", &format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n"));
        write("issued", "");
        write("serial", "01\n");
        write(
            "authority",
            "[a]\ndatabase=issued\nserial=serial\nnew_certs_dir=.\npolicy=p\ndefault_md=sha256\n[p]\ncommonName=supplied\n",
        );
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        result.openssl(&format!("req -x509 -days 2 -subj /CN=Tests -keyout ca.key -out ca.pem {key}"));
        result.openssl(&format!("req -subj /CN=Server -keyout server.key -out server.csr {key}"));
        result.openssl(&format!(
            "ca -batch -notext -config authority -name a -cert ca.pem -keyfile ca.key -extfile names \
             -startdate 20200101000000Z -enddate {year}1231235959Z -in server.csr -out server.pem"
        ));
        result
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// TLS acceptor of a server with these protocols.
    pub(super) fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let chain = CertificateDer::pem_file_iter(self.0.join("server.pem")).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(self.0.join("server.key")).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    fn openssl(&self, words: &str) {
        let output = Command::new("openssl").args(words.split_whitespace()).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
