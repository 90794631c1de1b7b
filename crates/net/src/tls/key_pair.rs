//! Certificate and private key files: read, and checked to match.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::CertifiedKey;

/// Maximum size of a certificate or key file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Error loading a certificate and its key.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; check its path (relative to the rule file) and its permissions", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file contains no certificate.
    #[error(
        "no certificate in {}: it must contain the chain in PEM format (-----BEGIN CERTIFICATE-----), the server \
         certificate first",
        file.display()
    )]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A certificate in the file is damaged.
    #[error("certificate {position} of {} is malformed: restore the file from the CA's original", file.display())]
    BadCertificate {
        /// The file.
        file: PathBuf,
        /// Its position in the file, starting at 1.
        position: usize,
    },
    /// The file contains no key.
    #[error("no private key in {}: it must contain one in PEM format (-----BEGIN PRIVATE KEY-----)", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// The key is encrypted with a password.
    #[error(
        "the key in {file} is encrypted, which is not supported; `openssl pkey -in {file} -out FILE` decrypts it",
        file = file.display()
    )]
    EncryptedKey {
        /// The file.
        file: PathBuf,
    },
    /// The key is damaged or of an unsupported type.
    #[error(
        "unsupported or malformed key in {}: it must be RSA (2048 to 8192 bits), ECDSA (P-256, P-384) or Ed25519",
        file.display()
    )]
    BadKey {
        /// The file.
        file: PathBuf,
    },
    /// Certificate and key are valid but do not match.
    #[error("the key in {} does not match the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// Certificate file.
        certificate: PathBuf,
        /// Key file.
        key: PathBuf,
    },
}

/// Paths of the certificate and key files.
#[derive(Debug)]
pub(super) struct KeyPairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// Contents of the two files.
pub(super) struct KeyPairPem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl KeyPairFiles {
    pub(super) fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key }
    }

    pub(super) fn read(&self) -> Result<KeyPairPem, CertificateError> {
        Ok(KeyPairPem { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    /// Builds the certified key if certificate and key match.
    pub(super) fn certified_key(
        &self,
        contents: &KeyPairPem,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, CertificateError> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let bad_key = || CertificateError::BadKey { file: self.key.clone() };
        let key = provider.key_provider.load_private_key(self.key(&contents.key)?).map_err(|_| bad_key())?;
        let certified = CertifiedKey::new(chain, key);
        // A pair that rustls cannot verify counts as a mismatch: the files may be half replaced at any time.
        certified
            .keys_match()
            .map_err(|_| CertificateError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() })?;
        Ok(certified)
    }

    fn key(&self, pem: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let file = self.key.clone();
        if is_encrypted(pem) {
            return Err(CertificateError::EncryptedKey { file });
        }
        match PrivateKeyDer::pem_slice_iter(pem).next() {
            Some(Ok(key)) => Ok(key),
            Some(Err(_)) => Err(CertificateError::BadKey { file }),
            None => Err(CertificateError::NoKey { file }),
        }
    }
}

impl KeyPairPem {
    /// Hash of the contents, to detect changes.
    pub(super) fn fingerprint(&self, hasher: &RandomState) -> u64 {
        hasher.hash_one((&self.certificate, &self.key))
    }
}

/// Parses the certificates in a file, at least one.
pub(super) fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let file = || file.to_owned();
    let read = CertificateDer::pem_slice_iter(pem).enumerate().map(|(index, certificate)| {
        let bad = || CertificateError::BadCertificate { file: file(), position: index + 1 };
        let certificate = certificate.map_err(|_| bad())?;
        ParsedCertificate::try_from(&certificate).map_err(|_| bad())?;
        Ok(certificate)
    });
    let read = read.collect::<Result<Vec<_>, _>>()?;
    if read.is_empty() { Err(CertificateError::NoCertificate { file: file() }) } else { Ok(read) }
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        let opened = File::open(file)?;
        let mut bytes = Vec::new();
        opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES { Err(io::Error::other("larger than 1 MiB")) } else { Ok(bytes) }
    };
    read().map_err(|source| CertificateError::Unreadable { file: file.to_owned(), source })
}

/// True for an encrypted key in PKCS #8 or in the older OpenSSL format.
fn is_encrypted(pem: &[u8]) -> bool {
    let mut lines = pem.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|line| line == b"-----BEGIN ENCRYPTED PRIVATE KEY-----" || line == b"Proc-Type: 4,ENCRYPTED")
}
