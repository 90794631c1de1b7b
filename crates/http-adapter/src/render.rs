//! Renders refusals and rate limit headers: decisions as HTTP responses. No other module does.

use bytes::Bytes;
use http::Response;

use crate::decision_view::DecisionView;
use crate::headers::{AdHocQuota, HeaderStyle, RateLimitFields};
use crate::prerendered::RenderedRules;
use crate::reply::{self, Protocol, RawRefusal};

/// Renders outcomes in one header style.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate_engine::{Sluice, rule::{Request, Rule}};
/// use sluicegate_http_adapter::{HeaderStyle, Protocol, Renderer};
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
#[derive(Debug)]
pub struct Renderer {
    style: HeaderStyle,
}

impl Renderer {
    /// Creates a renderer for a header style.
    pub const fn new(style: HeaderStyle) -> Self {
        Self { style }
    }

    /// Rate limit headers for the response to a request.
    pub fn fields(&self, decision: &impl DecisionView) -> RateLimitFields {
        match self.style {
            HeaderStyle::None => RateLimitFields::default(),
            style => with_rendered_rules(decision, |rules| RateLimitFields::of(style, rules, decision)),
        }
    }

    /// Rate limit headers for an ad hoc limit that is not part of a rule.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::HeaderMap;
    /// use sluicegate_http_adapter::headers::AdHocQuota;
    /// use sluicegate_http_adapter::{HeaderStyle, Renderer};
    ///
    /// let minute = Duration::from_secs(60);
    /// let quota = AdHocQuota { name: "trial", quota: 5, window: Some(minute), remaining: 4, reset: Some(minute / 2) };
    /// let mut headers = HeaderMap::new();
    /// Renderer::new(HeaderStyle::Ietf).fields_ad_hoc(&quota).write(&mut headers);
    /// assert_eq!(headers["ratelimit-policy"], "\"trial\";q=5;w=60");
    /// assert_eq!(headers["ratelimit"], "\"trial\";r=4;t=30");
    /// ```
    pub fn fields_ad_hoc(&self, quota: &AdHocQuota<'_>) -> RateLimitFields {
        RateLimitFields::ad_hoc(self.style, quota)
    }

    /// The response to a refused request.
    pub fn refuse(&self, decision: &impl DecisionView, protocol: Protocol) -> Response<Bytes> {
        with_rendered_rules(decision, |rules| {
            let mut response = reply::render(rules, decision, protocol);
            RateLimitFields::of(self.style, rules, decision).write(response.headers_mut());
            response
        })
    }

    /// [`Renderer::refuse`] over plain HTTP, as preformatted bytes. `None` if the rule has its own reply or did not
    /// refuse.
    pub fn refuse_raw(&self, decision: &impl DecisionView) -> Option<RawRefusal> {
        with_rendered_rules(decision, |rules| RawRefusal::of(self.style, rules, decision))
    }
}

/// Calls `render` with the prerendered rules of a decision. They are cached with the rule set, unless its
/// extension slot is taken.
fn with_rendered_rules<R>(view: &impl DecisionView, render: impl FnOnce(&RenderedRules) -> R) -> R {
    match view.rendered_rules() {
        Some(rules) => render(rules),
        None => render(&RenderedRules::of(view.rules())),
    }
}
