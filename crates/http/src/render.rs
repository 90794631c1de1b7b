//! Outcomes as HTTP: the one place that turns what was decided into headers and replies.

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use http::Response;
use sluicegate_engine::Outcome;
use std::sync::Arc;

use crate::faces::Faces;
use crate::headers::{Fields, HeaderStyle};
use crate::reply::{self, Protocol};

/// Renders outcomes in one style.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate_engine::{Sluice, rule::{Request, Rule}};
/// use sluicegate_http::{HeaderStyle, Protocol, Renderer};
///
/// let sluice = Sluice::builder().rule(Rule::new("total", ["1/1m".parse()?])).build()?;
/// let renderer = Renderer::new(HeaderStyle::Ietf);
/// let request = Request::new("GET", "/");
///
/// let mut headers = HeaderMap::new();
/// renderer.fields(&sluice.decide(&request)).write(&mut headers);
/// assert_eq!(headers["ratelimit-policy"], "\"total\";q=1;w=60");
/// assert!(headers["ratelimit"].to_str()?.starts_with("\"total\";r=0;t=6"));
///
/// let refusal = renderer.refuse(&sluice.decide(&request), Protocol::Http);
/// assert_eq!(refusal.status(), 429);
/// assert_eq!(refusal.headers()["content-type"], "application/problem+json");
/// assert!(refusal.headers().contains_key("retry-after"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Renderer {
    style: HeaderStyle,
    faces: ArcSwap<Faces>,
}

impl Renderer {
    /// A renderer of this style.
    pub fn new(style: HeaderStyle) -> Self {
        Self { style, faces: ArcSwap::default() }
    }

    /// What to add to the answer to a request: what is left to the client.
    pub fn fields(&self, outcome: &Outcome) -> Fields {
        if self.style == HeaderStyle::None {
            return Fields::default();
        }
        Fields::of(self.style, &self.faces(outcome), outcome)
    }

    /// The answer to a request that was refused.
    pub fn refuse(&self, outcome: &Outcome, protocol: Protocol) -> Response<Bytes> {
        let faces = self.faces(outcome);
        let mut response = reply::render(&faces, outcome, protocol);
        Fields::of(self.style, &faces, outcome).write(response.headers_mut());
        response
    }

    /// The faces of the rules that decided; prepared anew when these have been replaced.
    fn faces(&self, outcome: &Outcome) -> Guard<Arc<Faces>> {
        let known = self.faces.load();
        if known.are_of(outcome) {
            return known;
        }
        let fresh = Arc::new(Faces::of(outcome));
        // Requests that waited in line through a reload come in between those that came after it.
        if !known.are_newer_than(outcome) {
            self.faces.store(Arc::clone(&fresh));
        }
        Guard::from_inner(fresh)
    }
}

impl std::fmt::Debug for Renderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renderer").field("style", &self.style).finish_non_exhaustive()
    }
}
