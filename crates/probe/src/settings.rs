//! Validated arguments of `probe`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use super::criteria::Criteria;
use super::search::Search;
use crate::args::ProbeArgs;

/// Headers that the user may not set, with the alternative.
const RESERVED_HEADERS: [(HeaderName, &str); 4] = [
    (header::HOST, "use --host"),
    (header::CONTENT_LENGTH, "it is derived from --data"),
    (header::TRANSFER_ENCODING, "it is derived from --data"),
    (header::CONNECTION, "connections are always persistent"),
];

/// Settings of the load test.
pub(super) struct ProbeSettings {
    pub(super) search: Search,
    pub(super) criteria: Criteria,
    pub(super) step: Duration,
    pub(super) max_time: Duration,
    pub(super) max_in_flight: usize,
}

/// The request that is sent.
#[derive(Clone)]
pub(super) struct ProbeRequest {
    pub(super) method: Method,
    /// Path and query.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

impl ProbeSettings {
    pub(super) fn new(args: &ProbeArgs) -> Result<Self, String> {
        if args.to < args.from {
            return Err("--to is less than --from".to_owned());
        }
        if args.max_time < args.step {
            return Err("--max-time is shorter than one --step".to_owned());
        }
        Ok(Self {
            search: Search { from: args.from, to: args.to, grow: args.grow },
            criteria: Criteria { p99: args.p99, max_lateness: args.max_late },
            step: args.step,
            max_time: args.max_time,
            max_in_flight: args.max_in_flight as usize,
        })
    }
}

impl ProbeRequest {
    pub(super) fn new(args: &ProbeArgs) -> Result<Self, String> {
        let endpoint = &args.url;
        let query = endpoint.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        let uri = format!("{}{query}", endpoint.path).parse().map_err(|error| format!("{}: {error}", endpoint.path))?;
        let method = match (&args.method, &args.data) {
            (Some(method), _) => method.clone(),
            (None, Some(_)) => Method::POST,
            (None, None) => Method::GET,
        };
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_static(concat!("sluicegate-probe/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        let mut user_headers = HeaderMap::new();
        for (name, value) in &args.headers {
            let header_error = |message: &str| format!("header {name}: {message}");
            let name = HeaderName::try_from(name).map_err(|error| header_error(&error.to_string()))?;
            if let Some((_, instead)) = RESERVED_HEADERS.iter().find(|(not, _)| *not == name) {
                return Err(header_error(instead));
            }
            let value =
                HeaderValue::try_from(value).map_err(|_| header_error("the value contains invalid characters"))?;
            user_headers.append(name, value);
        }
        // User headers replace default ones and may be repeated.
        headers.extend(user_headers);
        let host = args.host.as_deref().unwrap_or(&endpoint.authority);
        let host = HeaderValue::try_from(host).map_err(|_| "--host: invalid host name".to_owned())?;
        headers.insert(header::HOST, host);
        let body = args.data.clone().map_or_else(Bytes::new, Bytes::from);
        Ok(Self { method, uri, headers, body, timeout: args.timeout })
    }
}
