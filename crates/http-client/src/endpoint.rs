//! Endpoint of a server: a parsed URL.

use std::fmt;

use http::uri::{Authority, Scheme, Uri};

/// A server with path and query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// True for https.
    pub is_encrypted: bool,
    /// Host, without the brackets of an IPv6 address.
    pub host: String,
    /// Port, also if the URL names none.
    pub port: u16,
    /// Authority as written in the URL.
    pub authority: String,
    /// Path.
    pub path: String,
    /// Part after `?`.
    pub query: Option<String>,
}

/// Hints in error messages for invalid URLs.
pub struct UrlErrorHints {
    /// Example of a valid URL.
    pub example: &'static str,
    /// The supported way to pass a secret.
    pub secret: &'static str,
}

impl Endpoint {
    /// Parses a URL, or `host:port`.
    pub fn parse(text: &str, hints: &UrlErrorHints) -> Result<Self, String> {
        let UrlErrorHints { example, secret } = hints;
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = url.parse().map_err(|error| format!("{error}: expected a URL such as {example}"))?;
        let is_encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err("unsupported scheme: use http or https".to_owned()),
        };
        let authority = uri.authority().map_or("", Authority::as_str);
        if authority.contains('@') {
            return Err((*secret).to_owned());
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(format!("missing host: expected a URL such as {example}"));
        }
        let port = match uri.port() {
            Some(port) => port.as_u16(),
            None if authority.ends_with(':') || has_port(authority) => return Err("invalid port".to_owned()),
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

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)?;
        self.query.as_ref().map_or(Ok(()), |query| write!(f, "?{query}"))
    }
}

fn has_port(authority: &str) -> bool {
    authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}
