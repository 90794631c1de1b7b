//! A certificate for loopback addresses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder with a certificate; removed on drop.
pub struct CertificateDir(PathBuf);

impl CertificateDir {
    /// Listener settings with this certificate.
    pub const LISTEN: &str = "listen: { address: 127.0.0.1:0, tls: { certificate: a.pem, key: a.key } }";

    pub fn new() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let folder = Self(std::env::temp_dir().join(format!("sluicegate-protocols-{}-{index}", std::process::id())));
        drop(std::fs::remove_dir_all(&folder.0));
        std::fs::create_dir(&folder.0).unwrap();
        let words = "req -x509 -days 2 -subj /CN=a -addext subjectAltName=IP:127.0.0.1 -newkey ec -pkeyopt \
                     ec_paramgen_curve:prime256v1 -nodes -keyout a.key -out a.pem";
        let output = Command::new("openssl").args(words.split_whitespace()).current_dir(&folder.0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the certificate that clients must trust.
    pub fn authority(&self) -> String {
        self.0.join("a.pem").display().to_string()
    }
}

impl Drop for CertificateDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
