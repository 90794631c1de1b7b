//! Shop, gateway and dashboard as one running program.
//!
//! All three go by the same rules and count in the same sluice, so the dashboard shows what the attribute in the
//! shop and the gateway before it do, side by side.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use sluicegate::LoadError;
use sluicegate::Sluice;
use sluicegate::cluster::store_of;
use sluicegate_admin::keeper::{Keeper, Origin, Start};
use sluicegate_admin::{Admin, GatewayReading, Sources, store_name};
use sluicegate_config::settings::{Settings, Store};
use sluicegate_config::{Report, parse};
use sluicegate_gateway::{Gateway, GatewayError};
use sluicegate_listen::{Process, Stop};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::http::routes;
use crate::shop::{Shop, ShopError, ShopSettings};

/// The rules of the sale, unless others are named.
pub const RULES: &str = include_str!("../rules.yaml");

/// What a house is told when it opens.
#[derive(Clone, Debug)]
pub struct HouseSettings {
    /// Of the shop.
    pub shop: ShopSettings,
    /// Where the shop listens.
    pub listen: SocketAddr,
    /// Where the gateway listens.
    pub gateway: SocketAddr,
    /// Where the dashboard listens.
    pub dashboard: SocketAddr,
    /// The text of the rules: `headers`, `lists` and `rules`.
    pub rules: String,
    /// Where limits are counted: `memory`, or a Redis that several houses share.
    pub limits: String,
    /// Whether this house brings orders from the queue to the database.
    pub consumes: bool,
}

/// Why a house cannot open.
#[derive(Debug, Error)]
pub enum HouseError {
    /// Not a place for limits.
    #[error("limits `{0}`: write `memory`, or redis://HOST:PORT")]
    Limits(String),
    /// The rules have faults.
    #[error("{0}")]
    Rules(Report),
    /// The rules cannot be put in force.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The shop cannot open.
    #[error(transparent)]
    Shop(#[from] ShopError),
    /// The gateway cannot open.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// The dashboard cannot open.
    #[error(transparent)]
    Dashboard(#[from] sluicegate_admin::OpenError),
    /// The shop cannot listen there.
    #[error("the shop cannot listen at {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The rules lack a section that was added to them.
    #[error("the rules have no gateway or no dashboard, though both were added: this is a fault of the program")]
    Incomplete,
}

/// A house that is open. Dropping it ends its tasks; [`House::close`] does so in order.
pub struct House {
    shop: Shop,
    addresses: Addresses,
    sluice: Sluice,
    gateway: sluicegate_gateway::Running,
    dashboard: sluicegate_admin::Running,
    tasks: Tasks,
}

/// Where everything is.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The shop.
    pub shop: SocketAddr,
    /// The gateway before it.
    pub gateway: SocketAddr,
    /// The dashboard.
    pub dashboard: SocketAddr,
}

/// Tasks that end with the house.
struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    /// Ends them, and waits until they have let go of what they held.
    async fn end(mut self) {
        for task in self.0.drain(..) {
            task.abort();
            // It was aborted, or had ended before.
            let _ = task.await;
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl House {
    /// Opens shop, gateway and dashboard.
    pub async fn open(settings: HouseSettings) -> Result<Self, HouseError> {
        let cannot = |error| HouseError::Listen { address: settings.listen, error };
        let listener = TcpListener::bind(settings.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let text = whole_text(&settings, address)?;
        let read = parse("the rules of the sale", &text).map_err(HouseError::Rules)?.settings;
        let sluice = sluicegate::enforce(read.clone())?;

        let mut process = Process::alone();
        let gateway = read.gateway.as_ref().ok_or(HouseError::Incomplete)?;
        let gateway = Gateway::open(&read, gateway, sluice.clone(), Path::new(""), &mut process)?;
        let dashboard = read.admin.as_ref().ok_or(HouseError::Incomplete)?;
        let sources = sources(&read, text, &sluice, &gateway);
        let dashboard = Admin::open(dashboard, sources, Path::new(""), &mut process)?;
        let shop = Shop::open(&settings.shop, sluice.clone()).await?;

        // Everything that can be wrong has been found: now it is served.
        let gateway = gateway.start(|line| tracing::info!("{line}"))?;
        let dashboard = dashboard.start(|line| tracing::info!("{line}"))?;
        let addresses = Addresses {
            shop: address,
            gateway: gateway.addresses().first().copied().ok_or(HouseError::Incomplete)?,
            dashboard: dashboard.address().ok_or(HouseError::Incomplete)?,
        };
        let app = routes(shop.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::error!("the shop serves no more: {error}");
            }
        });
        let mut tasks = vec![serving, tokio::spawn(shop.clone().sweep_for_ever())];
        if settings.consumes {
            tasks.push(tokio::spawn(shop.clone().consume()));
        }
        Ok(Self { shop, addresses, sluice, gateway, dashboard, tasks: Tasks(tasks) })
    }

    /// Where everything is.
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The shop.
    pub const fn shop(&self) -> &Shop {
        &self.shop
    }

    /// The rules in force, with what they have decided.
    pub const fn sluice(&self) -> &Sluice {
        &self.sluice
    }

    /// Closes: nobody new is let in, and what the fleet's store holds for this process goes back.
    pub async fn close(self) {
        let Self { gateway, dashboard, tasks, sluice, .. } = self;
        // Both wait for those whom they serve, on threads of their own.
        let stopping = spawn_blocking(move || {
            gateway.stop(Stop::Close);
            dashboard.stop(Stop::Close);
        });
        if stopping.await.is_err() {
            tracing::error!("the gateway or the dashboard did not stop in order");
        }
        tasks.end().await;
        if let Some(store) = store_of(&sluice) {
            store.close().await;
        }
    }
}

/// The rules with what only the program knows: where the shop is, and where everything else listens.
fn whole_text(settings: &HouseSettings, shop: SocketAddr) -> Result<String, HouseError> {
    let store = match settings.limits.as_str() {
        "memory" => String::new(),
        url if url.starts_with("redis://") && !url.contains(['\'', '\n']) => {
            // A sale that waits a little longer for the store is better than one that is refused, and one that was killed
            // must not keep the others out for long.
            format!("store: {{ url: '{url}', deadline: 500ms, permit_ttl: 5s }}\n")
        }
        other => return Err(HouseError::Limits(other.to_owned())),
    };
    Ok(format!(
        "gateway:\n  listen: {gateway}\n  upstreams: {{ shop: 'http://{shop}' }}\n  routes:\n    \
         - {{ path: /sale/cache, methods: [POST], upstream: shop }}\n    \
         - {{ path: '/orders/{{*rest}}', upstream: shop }}\n\
         admin: {{ listen: {dashboard} }}\n{store}\n{rules}",
        gateway = settings.gateway,
        dashboard = settings.dashboard,
        rules = settings.rules,
    ))
}

/// What the dashboard tells of.
fn sources(read: &Settings, text: String, sluice: &Sluice, gateway: &Gateway) -> Sources {
    let keeper = Keeper::new(Start {
        sluice: sluice.clone(),
        origin: Origin::BuiltIn,
        text,
        settings: read.clone(),
        beside: Box::new(()),
    });
    let mut sources = Sources::new(sluice.clone(), keeper);
    if let Store::Redis(store) = &read.store {
        sources.store = Some(store_name(store));
    }
    let vitals = gateway.vitals();
    sources.gateway = Some(Arc::new(move || GatewayReading {
        connections: vitals.door().into(),
        in_flight: vitals.under_way(),
        answered: vitals.answered().to_vec(),
        moved: vitals.moved(),
        ..GatewayReading::default()
    }));
    sources
}
