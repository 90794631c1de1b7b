//! The layer.

use std::sync::Arc;

use sluicegate_engine::Sluice;
use tower_layer::Layer;

use super::builder::LimitLayerBuilder;
use super::gate::Gate;
use super::service::LimitService;

/// Enforces the rules of a [`Sluice`] on requests that come in.
///
/// All clones, and all services they are laid around, share one state: it does not matter how many
/// connections, routes or threads there are.
///
/// ```
/// use sluicegate_engine::{Sluice, rule::Rule};
/// use sluicegate_tower::LimitLayer;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sluice = Sluice::builder().rule(Rule::new("total", ["1/1m".parse()?])).build()?;
/// let hello = service_fn(async |_: http::Request<()>| Ok::<_, std::io::Error>(http::Response::new(String::new())));
/// let limited = ServiceBuilder::new().layer(LimitLayer::new(sluice)).service(hello);
///
/// let answer = limited.clone().oneshot(http::Request::new(())).await?;
/// assert_eq!(answer.status(), 200);
/// let refused = limited.oneshot(http::Request::new(())).await?;
/// assert_eq!(refused.status(), 429);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LimitLayer {
    gate: Arc<Gate>,
}

impl LimitLayer {
    /// With everything as usual: the client is the peer, headers by the IETF draft.
    pub fn new(sluice: Sluice) -> Self {
        Self::builder(sluice).build()
    }

    /// Trusted proxies, header style, further attributes.
    pub fn builder(sluice: Sluice) -> LimitLayerBuilder {
        LimitLayerBuilder::new(sluice)
    }

    pub(super) fn from_gate(gate: Gate) -> Self {
        Self { gate: Arc::new(gate) }
    }

    /// The rules it enforces, to look at or to replace.
    pub fn sluice(&self) -> &Sluice {
        self.gate.sluice()
    }

    /// Rules that never count a request here, because their key names an attribute that nothing provides:
    /// the rule, and the attribute. Worth a look at the start and whenever rules have been replaced, since a
    /// slip of the pen shows nowhere else.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Attribute, Rule}};
    /// use sluicegate_tower::LimitLayer;
    ///
    /// let mut orders = Rule::new("orders", ["10/s".parse()?]);
    /// orders.key = vec![Attribute::custom("account").into()];
    /// let layer = LimitLayer::new(Sluice::builder().rule(orders).build()?);
    /// assert_eq!(layer.unprovided(), [("orders".to_owned(), "account".to_owned())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unprovided(&self) -> Vec<(String, String)> {
        self.gate.unprovided()
    }

    /// How many requests came from nobody knows where. More than none, and the server around it does not
    /// tell the peers' addresses: all such requests count as one client.
    pub fn unknown_peers(&self) -> u64 {
        self.gate.unknown_peers()
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = LimitService<S>;

    fn layer(&self, inner: S) -> LimitService<S> {
        LimitService::new(inner, Arc::clone(&self.gate))
    }
}
