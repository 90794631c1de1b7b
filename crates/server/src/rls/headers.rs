//! Response headers and body that the proxy adds for the client.

use http::{HeaderMap, HeaderValue, header};
use sluicegate_engine::Outcome;
use sluicegate_engine::rule::Reply;
use sluicegate_http_adapter::{Protocol, Renderer};

use super::descriptor_status::DescriptorResult;
use super::proto::HeaderValue as Header;

/// Headers and body that the proxy sends to the client.
#[derive(Default)]
pub(super) struct ResponseOverrides {
    pub(super) headers: Vec<Header>,
    /// The body of a refusal; empty for the proxy's default.
    pub(super) body: Vec<u8>,
}

impl ResponseOverrides {
    /// From the result of the decisive descriptor. A rule's custom reply is sent with its body and headers; the proxy
    /// cannot carry its status. A limit without a rule is reported by its numbers.
    pub(super) fn new<'c>(renderer: &Renderer, result: &DescriptorResult<'c>) -> Self {
        let mut headers = HeaderMap::new();
        let mut body = Vec::new();
        // An admitted request gets no refusal reply, even if the rules refused a refund.
        let reply = |outcome: &'c Outcome| outcome.reply().filter(|_| !result.verdict.is_admitted());
        match result.outcome.map(|outcome| (outcome, reply(outcome))) {
            None => {
                if let Some(left) = result.adhoc_quota() {
                    renderer.fields_ad_hoc(&left).write(&mut headers);
                }
            }
            Some((outcome, Some(Reply::Refuse { body: Some(_), .. } | Reply::Degrade { .. }))) => {
                let reply = renderer.refuse(outcome, Protocol::Http);
                body = reply.body().to_vec();
                headers = reply.into_parts().0.headers;
            }
            Some((outcome, Some(Reply::Refuse { body: None, .. }))) => {
                headers = renderer.refuse(outcome, Protocol::Http).into_parts().0.headers;
                // It describes a body that the proxy does not send.
                headers.remove(header::CONTENT_TYPE);
            }
            Some((outcome, Some(Reply::Redirect { .. }) | None)) => renderer.fields(outcome).write(&mut headers),
        }
        if let Some(wait) = result.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        Self { headers: headers.iter().filter_map(|(name, value)| header_value(name.as_str(), value)).collect(), body }
    }
}

/// Seconds, rounded up and at least one, so that a retry is not too early.
fn whole_seconds(time: std::time::Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

fn header_value(key: &str, value: &HeaderValue) -> Option<Header> {
    Some(Header { key: key.to_owned(), value: std::str::from_utf8(value.as_bytes()).ok()?.to_owned() })
}
