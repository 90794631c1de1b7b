//! What a layer can be told.

use std::sync::atomic::AtomicU64;

use sluicegate_engine::Sluice;
use sluicegate_http::attributes::AttributeSources;
use sluicegate_http::identity::Forwarding;
use sluicegate_http::{HeaderStyle, Renderer};

use super::gate::Gate;
use super::layer::LimitLayer;

/// Makes a [`LimitLayer`].
///
/// ```
/// use sluicegate_engine::Sluice;
/// use sluicegate_http::HeaderStyle;
/// use sluicegate_http::identity::TrustedProxies;
/// use sluicegate_tower::LimitLayer;
///
/// let layer = LimitLayer::builder(Sluice::builder().build()?)
///     .service("shop")
///     .forwarding(TrustedProxies::parse(["10.0.0.0/8"])?)
///     .headers(HeaderStyle::Legacy)
///     .build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LimitLayerBuilder {
    sluice: Sluice,
    headers: HeaderStyle,
    forwarding: Forwarding,
    attributes: AttributeSources,
    service: String,
}

impl LimitLayerBuilder {
    pub(super) fn new(sluice: Sluice) -> Self {
        Self {
            sluice,
            headers: HeaderStyle::default(),
            forwarding: Forwarding::default(),
            attributes: AttributeSources::none(),
            service: String::new(),
        }
    }

    /// Which headers tell clients what is left to them; by the IETF draft unless told otherwise.
    pub fn headers(mut self, style: HeaderStyle) -> Self {
        self.headers = style;
        self
    }

    /// Whose word about the client counts, and in which header it is looked for. Nobody's unless told
    /// otherwise.
    pub fn forwarding(mut self, forwarding: impl Into<Forwarding>) -> Self {
        self.forwarding = forwarding.into();
        self
    }

    /// Where attributes beyond HTTP's own come from: API keys, verified claims, extensions, your own.
    pub fn attributes(mut self, sources: AttributeSources) -> Self {
        self.attributes = sources;
        self
    }

    /// What rules know this service as: `match: service shop`.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// The layer.
    pub fn build(self) -> LimitLayer {
        let Self { sluice, headers, forwarding, attributes: sources, service } = self;
        let (renderer, unknown_peers) = (Renderer::new(headers), AtomicU64::new(0));
        LimitLayer::from_gate(Gate { sluice, renderer, forwarding, sources, service, unknown_peers })
    }
}
