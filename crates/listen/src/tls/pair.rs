//! A certificate and its key as files: read, and checked to belong together.

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

/// No chain and no key is as large.
const MOST: u64 = 1 << 20;

/// Why a certificate and a key cannot be used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; check its name (relative to the rule file) and who may read it", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no certificate in the file.
    #[error(
        "there is no certificate in {}: it must hold the chain in PEM (-----BEGIN CERTIFICATE-----), the server's own \
         certificate first",
        file.display()
    )]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// What says it is a certificate is none.
    #[error("certificate {nth} of {} is damaged: write the file anew from what the authority gave", file.display())]
    BadCertificate {
        /// The file.
        file: PathBuf,
        /// Which one, from 1 on.
        nth: usize,
    },
    /// There is no key in the file.
    #[error("there is no private key in {}: it must hold it in PEM (-----BEGIN PRIVATE KEY-----)", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// The key has a password.
    #[error(
        "the key in {file} is encrypted: nobody is there to give the password; `openssl pkey -in {file} -out FILE` \
         writes it without",
        file = file.display()
    )]
    EncryptedKey {
        /// The file.
        file: PathBuf,
    },
    /// The key is damaged or of a kind that TLS has no use for.
    #[error(
        "the key in {} cannot be used: it must be RSA (2048 to 8192 bits), ECDSA (P-256, P-384) or Ed25519",
        file.display()
    )]
    BadKey {
        /// The file.
        file: PathBuf,
    },
    /// Each is well but they do not belong together.
    #[error("the key in {} does not fit the certificate in {}: give the two that belong together", key.display(), certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
}

/// The two files.
#[derive(Debug)]
pub(super) struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

/// What is in the two files.
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    pub(super) fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key }
    }

    pub(super) fn read(&self) -> Result<Contents, CertificateError> {
        Ok(Contents { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    /// The two, if they belong together.
    pub(super) fn certified(
        &self,
        contents: &Contents,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, CertificateError> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let bad_key = || CertificateError::BadKey { file: self.key.clone() };
        let key = provider.key_provider.load_private_key(self.key(&contents.key)?).map_err(|_| bad_key())?;
        let certified = CertifiedKey::new(chain, key);
        // What rustls cannot tell is no fit either: files may be half replaced at any moment.
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

impl Contents {
    /// A number that is another for other contents.
    pub(super) fn fingerprint(&self, hasher: &RandomState) -> u64 {
        hasher.hash_one((&self.certificate, &self.key))
    }
}

/// The certificates in a file, at least one.
pub(super) fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let file = || file.to_owned();
    let read = CertificateDer::pem_slice_iter(pem).enumerate().map(|(index, certificate)| {
        let bad = || CertificateError::BadCertificate { file: file(), nth: index + 1 };
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
        opened.take(MOST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST { Err(io::Error::other("it is larger than 1 MiB")) } else { Ok(bytes) }
    };
    read().map_err(|source| CertificateError::Unreadable { file: file.to_owned(), source })
}

/// In the form of PKCS #8, or in the older one of OpenSSL.
fn is_encrypted(pem: &[u8]) -> bool {
    let mut lines = pem.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|line| line == b"-----BEGIN ENCRYPTED PRIVATE KEY-----" || line == b"Proc-Type: 4,ENCRYPTED")
}
