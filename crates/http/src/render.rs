//! Outcomes as HTTP: the one place that turns what was decided into headers and replies.

use bytes::Bytes;
use http::Response;
use sluicegate_engine::Outcome;
use sluicegate_engine::sluice::Waved;

use crate::faces::Faces;
use crate::headers::{Fields, HeaderStyle, Left};
use crate::reply::{self, Brief, Protocol};
use crate::told::Told;

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
#[derive(Debug)]
pub struct Renderer {
    style: HeaderStyle,
}

impl Renderer {
    /// A renderer of this style.
    pub const fn new(style: HeaderStyle) -> Self {
        Self { style }
    }

    /// What to add to the answer to a request: what is left to the client.
    pub fn fields(&self, outcome: &Outcome) -> Fields {
        self.fields_of(outcome)
    }

    /// The same for a request that was [waved through](sluicegate_engine::sluice::Waving::wave).
    pub fn fields_waved(&self, waved: &Waved<'_>) -> Fields {
        self.fields_of(waved)
    }

    /// The same for a limit that no rule stands for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::HeaderMap;
    /// use sluicegate_http::headers::Left;
    /// use sluicegate_http::{HeaderStyle, Renderer};
    ///
    /// let minute = Duration::from_secs(60);
    /// let left = Left { name: "trial", quota: 5, window: Some(minute), remaining: 4, reset: Some(minute / 2) };
    /// let mut headers = HeaderMap::new();
    /// Renderer::new(HeaderStyle::Ietf).fields_left(&left).write(&mut headers);
    /// assert_eq!(headers["ratelimit-policy"], "\"trial\";q=5;w=60");
    /// assert_eq!(headers["ratelimit"], "\"trial\";r=4;t=30");
    /// ```
    pub fn fields_left(&self, left: &Left<'_>) -> Fields {
        Fields::left(self.style, left)
    }

    fn fields_of(&self, told: &impl Told) -> Fields {
        match self.style {
            HeaderStyle::None => Fields::default(),
            style => with_faces(told, |faces| Fields::of(style, faces, told)),
        }
    }

    /// The answer to a request that was refused.
    pub fn refuse(&self, outcome: &Outcome, protocol: Protocol) -> Response<Bytes> {
        self.refuse_told(outcome, protocol)
    }

    /// The same for a request that was waved off.
    pub fn refuse_waved(&self, waved: &Waved<'_>, protocol: Protocol) -> Response<Bytes> {
        self.refuse_told(waved, protocol)
    }

    fn refuse_told(&self, told: &impl Told, protocol: Protocol) -> Response<Bytes> {
        with_faces(told, |faces| {
            let mut response = reply::render(faces, told, protocol);
            Fields::of(self.style, faces, told).write(response.headers_mut());
            response
        })
    }

    /// [`Renderer::refuse_waved`] over plain HTTP for whoever writes it out at once; `None` if the rule has more to say,
    /// or did not refuse.
    pub fn refuse_briefly(&self, waved: &Waved<'_>) -> Option<Brief> {
        with_faces(waved, |faces| Brief::of(self.style, faces, waved))
    }
}

/// Shows the faces of the rules that decided. They are kept with the rules, unless somebody else keeps something
/// there.
fn with_faces<R>(told: &impl Told, show: impl FnOnce(&Faces) -> R) -> R {
    match told.faces() {
        Some(faces) => show(faces),
        None => show(&Faces::of(told.rules())),
    }
}
