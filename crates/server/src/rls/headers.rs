//! What the proxy adds to its answer to the client.

use http::{HeaderMap, HeaderValue, header};
use sluicegate_engine::Outcome;
use sluicegate_engine::rule::Reply;
use sluicegate_http::{Protocol, Renderer};

use super::proto::HeaderValue as Header;
use super::standing::Standing;

/// What a client is told beyond the proxy's own words.
#[derive(Default)]
pub(super) struct Told {
    pub(super) headers: Vec<Header>,
    /// The body of a refusal; empty: the proxy's own.
    pub(super) body: Vec<u8>,
}

impl Told {
    /// Of the descriptor that the answer hangs on. A rule's own reply is told as far as the proxy can carry it:
    /// its body and its headers, not its status. A limit without a rule is told by its numbers.
    pub(super) fn of<'c>(renderer: &Renderer, standing: &Standing<'c>) -> Self {
        let mut headers = HeaderMap::new();
        let mut body = Vec::new();
        // Whoever is admitted is not answered with a refusal, whatever the rules said of hits that come back.
        let reply = |outcome: &'c Outcome| outcome.reply().filter(|_| !standing.verdict.is_admitted());
        match standing.outcome.map(|outcome| (outcome, reply(outcome))) {
            None => {
                if let Some(left) = standing.left() {
                    renderer.fields_left(&left).write(&mut headers);
                }
            }
            Some((outcome, Some(Reply::Refuse { body: Some(_), .. } | Reply::Degrade { .. }))) => {
                let reply = renderer.refuse(outcome, Protocol::Http);
                body = reply.body().to_vec();
                headers = reply.into_parts().0.headers;
            }
            Some((outcome, Some(Reply::Refuse { body: None, .. }))) => {
                headers = renderer.refuse(outcome, Protocol::Http).into_parts().0.headers;
                // Of the body that the proxy does not send.
                headers.remove(header::CONTENT_TYPE);
            }
            Some((outcome, Some(Reply::Redirect { .. }) | None)) => renderer.fields(outcome).write(&mut headers),
        }
        if let Some(wait) = standing.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        Self { headers: headers.iter().filter_map(|(name, value)| told(name.as_str(), value)).collect(), body }
    }
}

/// Rounded up, and never none: whoever comes too early comes twice.
fn whole_seconds(time: std::time::Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).max(1)
}

fn told(key: &str, value: &HeaderValue) -> Option<Header> {
    Some(Header { key: key.to_owned(), value: std::str::from_utf8(value.as_bytes()).ok()?.to_owned() })
}
