//! A secret that clients must show.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;

use thiserror::Error;

/// The shortest secret, in bytes: what is shorter can be guessed.
const SHORTEST: usize = 8;

/// Why a file is no secret.
#[derive(Debug, Error)]
pub enum SecretError {
    /// It cannot be read.
    #[error("cannot read the secret {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is too little in it.
    #[error("the secret in {file} has {len} bytes; give it {SHORTEST} or more, such as of `openssl rand -hex 32`")]
    TooShort {
        /// The file.
        file: String,
        /// How many bytes it has.
        len: usize,
    },
}

/// A secret that clients must show. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Reads a file. White space around the secret does not count, as editors end files with a line.
    pub fn read(file: &Path) -> Result<Self, SecretError> {
        let named = || file.display().to_string();
        let bytes = fs::read(file).map_err(|source| SecretError::Unreadable { file: named(), source })?;
        let secret = bytes.trim_ascii();
        if secret.len() < SHORTEST {
            return Err(SecretError::TooShort { file: named(), len: secret.len() });
        }
        Ok(Self(secret.into()))
    }

    /// A secret of a test's own.
    #[cfg(test)]
    pub(crate) fn of(secret: &str) -> Self {
        Self(secret.as_bytes().into())
    }

    /// Whether this is it. How long that takes does not tell where it differs.
    pub fn is(&self, shown: &[u8]) -> bool {
        let differs = self.0.iter().enumerate().fold(0, |differs, (index, byte)| {
            // Beyond its end, what was shown is compared with something else than itself.
            black_box(differs | (byte ^ shown.get(index).copied().unwrap_or(!byte)))
        });
        differs == 0 && self.0.len() == shown.len()
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
    fn only_the_secret_itself_is_it() {
        let known = secret("correct horse");
        assert!(known.is(b"correct horse"));
        for wrong in ["", "c", "correct hors", "correct horse ", "Correct horse", "correct horsf"] {
            assert!(!known.is(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn it_is_never_printed() {
        assert!(!format!("{:?}", secret("correct horse")).contains("horse"));
    }
}
