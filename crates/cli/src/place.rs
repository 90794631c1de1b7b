//! Where a server is: a URL, read.

use std::fmt;

use http::uri::{Authority, Scheme, Uri};

/// A server, and what to ask there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) is_encrypted: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As it stands in the URL.
    pub(crate) authority: String,
    pub(crate) path: String,
    /// What comes after `?`.
    pub(crate) query: Option<String>,
}

/// What is said to who writes a URL wrongly.
pub(crate) struct Wording {
    /// A URL as it should be.
    pub(crate) example: &'static str,
    /// Where a secret belongs instead.
    pub(crate) secret: &'static str,
}

impl Place {
    /// Reads a URL, or `host:port`.
    pub(crate) fn read(text: &str, wording: &Wording) -> Result<Self, String> {
        let Wording { example, secret } = wording;
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = whole.parse().map_err(|error| format!("{error}: write it as {example}"))?;
        let is_encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err("only http and https are spoken".to_owned()),
        };
        let authority = uri.authority().map_or("", Authority::as_str);
        if authority.contains('@') {
            return Err((*secret).to_owned());
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(format!("the host is missing: write it as {example}"));
        }
        let port = match uri.port() {
            Some(port) => port.as_u16(),
            None if authority.ends_with(':') || has_port(authority) => return Err("its port is no number".to_owned()),
            None if is_encrypted => 443,
            None => 80,
        };
        Ok(Self {
            is_encrypted,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            path: uri.path().to_owned(),
            query: uri.query().map(str::to_owned),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)?;
        self.query.as_ref().map_or(Ok(()), |query| write!(f, "?{query}"))
    }
}

fn has_port(authority: &str) -> bool {
    authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}
