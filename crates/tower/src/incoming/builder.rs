//! Builder of a limit layer.

use std::sync::atomic::AtomicU64;

use sluicegate_engine::Sluice;
use sluicegate_http_adapter::attributes::AttributeSources;
use sluicegate_http_adapter::identity::Forwarding;
use sluicegate_http_adapter::{HeaderStyle, Renderer};

use super::layer::LimitLayer;
use super::state::LayerState;

/// Builds a [`LimitLayer`].
///
/// ```
/// use sluicegate_engine::Sluice;
/// use sluicegate_http_adapter::HeaderStyle;
/// use sluicegate_http_adapter::identity::TrustedProxies;
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

    /// Style of the rate-limit response headers. Default: the IETF draft.
    pub fn headers(mut self, style: HeaderStyle) -> Self {
        self.headers = style;
        self
    }

    /// Trusted proxies, and the header that carries the client address. Default: no proxy is
    /// trusted.
    pub fn forwarding(mut self, forwarding: impl Into<Forwarding>) -> Self {
        self.forwarding = forwarding.into();
        self
    }

    /// Sources of custom attributes: API keys, verified claims, extensions, your own.
    pub fn attributes(mut self, sources: AttributeSources) -> Self {
        self.attributes = sources;
        self
    }

    /// Name of this service in rules: `match: service shop`.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// Builds the layer.
    pub fn build(self) -> LimitLayer {
        let Self { sluice, headers, forwarding, attributes: sources, service } = self;
        let (renderer, unknown_peers) = (Renderer::new(headers), AtomicU64::new(0));
        LimitLayer::from_state(LayerState { sluice, renderer, forwarding, sources, service, unknown_peers })
    }
}
