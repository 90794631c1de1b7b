//! The limit layer for incoming requests.

use std::sync::Arc;

use sluicegate_engine::Sluice;
use tower_layer::Layer;

use super::builder::LimitLayerBuilder;
use super::service::LimitService;
use super::state::LayerState;

/// Layer that enforces the rules of a [`Sluice`] on incoming requests.
///
/// All clones, and all services they wrap, share one state, regardless of the number of
/// connections, routes or threads.
///
/// ```
/// use sluicegate_engine::{Sluice, rule::Rule};
/// use sluicegate_tower::LimitLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sluice = Sluice::builder().rule(Rule::new("total", ["1/1m".parse()?])).build()?;
/// let hello = service_fn(async |_: http::Request<()>| {
///     Ok::<_, std::io::Error>(http::Response::new(String::new()))
/// });
/// let limited = ServiceBuilder::new().layer(LimitLayer::new(sluice)).service(hello);
///
/// let response = limited.clone().oneshot(http::Request::new(())).await?;
/// assert_eq!(response.status(), 200);
/// let refused = limited.oneshot(http::Request::new(())).await?;
/// assert_eq!(refused.status(), 429);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LimitLayer {
    state: Arc<LayerState>,
}

impl LimitLayer {
    /// Creates a layer with defaults: the client is the peer, headers follow the IETF draft.
    pub fn new(sluice: Sluice) -> Self {
        Self::builder(sluice).build()
    }

    /// Builder for trusted proxies, header style and custom attributes.
    pub fn builder(sluice: Sluice) -> LimitLayerBuilder {
        LimitLayerBuilder::new(sluice)
    }

    pub(super) fn from_state(state: LayerState) -> Self {
        Self { state: Arc::new(state) }
    }

    /// The sluice, for inspection or rule replacement.
    pub fn sluice(&self) -> &Sluice {
        self.state.sluice()
    }

    /// Rules that never count a request here, because their key names an attribute that nothing provides:
    /// pairs of rule and attribute. Check it at startup and after every rule replacement, since a typo
    /// shows nowhere else.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Attribute, Rule}};
    /// use sluicegate_tower::LimitLayer;
    ///
    /// let mut orders = Rule::new("orders", ["10/s".parse()?]);
    /// orders.key = vec![Attribute::custom("account").into()];
    /// let layer = LimitLayer::new(Sluice::builder().rule(orders).build()?);
    /// assert_eq!(layer.missing_attributes(), [("orders".to_owned(), "account".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn missing_attributes(&self) -> Vec<(String, String)> {
        self.state.missing_attributes()
    }

    /// Number of requests without a known peer address. If it is not zero, the server does not
    /// set the peer address extension: all such requests count as one client.
    pub fn unknown_peers(&self) -> u64 {
        self.state.unknown_peers()
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = LimitService<S>;

    fn layer(&self, inner: S) -> LimitService<S> {
        LimitService::new(inner, Arc::clone(&self.state))
    }
}
