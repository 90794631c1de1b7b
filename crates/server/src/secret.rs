//! Shared secret that clients must send.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;

use thiserror::Error;

/// Minimum length of a secret in bytes; shorter ones can be guessed.
const MIN_BYTES: usize = 8;

/// The reason a secret file cannot be used.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the secret file {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// The I/O error.
        source: io::Error,
    },
    /// The secret is too short.
    #[error("the secret in {file} has {len} bytes; the minimum is {MIN_BYTES}: create one with `openssl rand -hex 32`")]
    TooShort {
        /// The file.
        file: String,
        /// Its length in bytes.
        len: usize,
    },
}

/// A secret that clients must send. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Reads a secret from a file. Surrounding white space is ignored, as editors add a line end.
    pub fn read(file: &Path) -> Result<Self, SecretError> {
        let file_name = || file.display().to_string();
        let bytes = fs::read(file).map_err(|source| SecretError::Unreadable { file: file_name(), source })?;
        let secret = bytes.trim_ascii();
        if secret.len() < MIN_BYTES {
            return Err(SecretError::TooShort { file: file_name(), len: secret.len() });
        }
        Ok(Self(secret.into()))
    }

    /// A secret for tests.
    #[cfg(test)]
    pub(crate) fn of(secret: &str) -> Self {
        Self(secret.as_bytes().into())
    }

    /// True if `candidate` is the secret. Compares in constant time.
    pub fn matches(&self, candidate: &[u8]) -> bool {
        let differs = self.0.iter().enumerate().fold(0, |differs, (index, byte)| {
            // Past its end, the candidate is compared with a byte that always differs.
            black_box(differs | (byte ^ candidate.get(index).copied().unwrap_or(!byte)))
        });
        differs == 0 && self.0.len() == candidate.len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret(text.as_bytes().into())
    }

    #[test]
    fn only_the_exact_secret_matches() {
        let known = secret("correct horse");
        assert!(known.matches(b"correct horse"));
        for wrong in ["", "c", "correct hors", "correct horse ", "Correct horse", "correct horsf"] {
            assert!(!known.matches(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn debug_output_hides_the_secret() {
        assert!(!format!("{:?}", secret("correct horse")).contains("horse"));
    }
}
