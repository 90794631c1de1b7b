//! Certificates for tests, made by openssl.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use sluicegate_config::settings;

use crate::restart::PrivateFolder;

/// A folder with `NAME.pem` and `NAME.key`, each pair signed by itself, for `localhost` and `127.0.0.1`.
pub(crate) struct Made(PrivateFolder);

impl Made {
    pub(crate) fn new(names: &[&str]) -> Self {
        let made = Self(PrivateFolder::new("certificates").unwrap());
        names.iter().for_each(|name| made.add(name));
        made
    }

    fn add(&self, name: &str) {
        let words = format!(
            "req -x509 -days 2 -subj /CN={name} -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext \
             basicConstraints=critical,CA:FALSE -newkey ec -pkeyopt \
             ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -out {name}.pem"
        );
        self.openssl(&words);
    }

    pub(crate) fn openssl(&self, words: &str) {
        let output = Command::new("openssl").args(words.split_whitespace()).current_dir(self.folder()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The files of this name, as settings have them.
    pub(crate) fn files(&self, name: &str) -> settings::Certificate {
        settings::Certificate { certificate: format!("{name}.pem"), key: format!("{name}.key"), client_ca: None }
    }

    /// Puts one file in the place of another, whole, as programs that renew certificates do.
    pub(crate) fn replace(&self, old: &str, new: &str) {
        std::fs::copy(self.path(new), self.path("moving")).unwrap();
        std::fs::rename(self.path("moving"), self.path(old)).unwrap();
    }
}
