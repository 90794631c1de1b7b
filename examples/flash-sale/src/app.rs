//! Shop, gateway and dashboard in one process.
//!
//! All three share one sluice, so the dashboard shows the decisions of the attribute in the shop and of the gateway.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use sluicegate::LoadError;
use sluicegate::Sluice;
use sluicegate::cluster::store_of;
use sluicegate_admin::reload::{InitialRules, RuleManager, RulesOrigin};
use sluicegate_admin::{Admin, GatewayStats, Providers, store_display_name};
use sluicegate_config::settings::{Settings, Store};
use sluicegate_config::{Report, parse};
use sluicegate_gateway::{Gateway, GatewayError};
use sluicegate_net::{Process, Shutdown};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::http::routes;
use crate::shop::{Shop, ShopError, ShopSettings};

/// Default rules of the sale.
pub const RULES: &str = include_str!("../rules.yaml");

/// Settings of the application.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// Settings of the shop.
    pub shop: ShopSettings,
    /// Listen address of the shop.
    pub listen: SocketAddr,
    /// Listen address of the gateway.
    pub gateway: SocketAddr,
    /// Listen address of the dashboard.
    pub dashboard: SocketAddr,
    /// Rule file text with `headers`, `lists` and `rules`.
    pub rules: String,
    /// Store of the limits: `memory`, or the URL of a Redis server shared by several processes.
    pub limits: String,
    /// Runs the consumer, which moves orders from the queue to the database.
    pub run_consumer: bool,
}

/// Startup error.
#[derive(Debug, Error)]
pub enum AppError {
    /// Invalid store of the limits.
    #[error("limits `{0}`: write `memory`, or redis://HOST:PORT")]
    Limits(String),
    /// The rules are invalid.
    #[error("{0}")]
    Rules(Report),
    /// The rules cannot be applied.
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
    /// The shop cannot listen on its address.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Listen address.
        address: SocketAddr,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The rules lack a section that the program has added.
    #[error("the rules have no `gateway` or no `admin` section: this is a bug in sluicegate-flash-sale")]
    Incomplete,
}

/// Running application. Drop aborts its tasks; [`App::close`] shuts it down in order.
pub struct App {
    shop: Shop,
    addresses: Addresses,
    sluice: Sluice,
    gateway: sluicegate_gateway::GatewayHandle,
    dashboard: sluicegate_admin::AdminHandle,
    tasks: BackgroundTasks,
}

/// Bound addresses.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Address of the shop.
    pub shop: SocketAddr,
    /// Address of the gateway.
    pub gateway: SocketAddr,
    /// Address of the dashboard.
    pub dashboard: SocketAddr,
}

/// Background tasks, aborted on drop.
struct BackgroundTasks(Vec<JoinHandle<()>>);

impl BackgroundTasks {
    /// Aborts the tasks and waits until they have released their resources.
    async fn abort_and_wait(mut self) {
        for task in self.0.drain(..) {
            task.abort();
            // The task was aborted or has ended.
            let _ = task.await;
        }
    }
}

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl App {
    /// Opens shop, gateway and dashboard.
    pub async fn open(settings: AppSettings) -> Result<Self, AppError> {
        let listen_error = |error| AppError::Listen { address: settings.listen, error };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let text = complete_rules(&settings, address)?;
        let rule_file = parse("rules.yaml", &text).map_err(AppError::Rules)?.settings;
        let sluice = sluicegate::enforce(rule_file.clone())?;

        let mut process = Process::standalone();
        let gateway = rule_file.gateway.as_ref().ok_or(AppError::Incomplete)?;
        let gateway = Gateway::open(&rule_file, gateway, sluice.clone(), Path::new(""), &mut process)?;
        let dashboard = rule_file.admin.as_ref().ok_or(AppError::Incomplete)?;
        let providers = providers(&rule_file, text, &sluice, &gateway);
        let dashboard = Admin::open(dashboard, providers, Path::new(""), &mut process)?;
        let shop = Shop::open(&settings.shop, sluice.clone()).await?;

        // All configuration errors have been reported: start serving.
        let gateway = gateway.start(|line| tracing::info!("{line}"))?;
        let dashboard = dashboard.start(|line| tracing::info!("{line}"))?;
        let addresses = Addresses {
            shop: address,
            gateway: gateway.addresses().first().copied().ok_or(AppError::Incomplete)?,
            dashboard: dashboard.address().ok_or(AppError::Incomplete)?,
        };
        let router = routes(shop.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!("the shop stopped serving: {error}");
            }
        });
        let mut tasks = vec![serving, tokio::spawn(shop.clone().run_sweeper())];
        if settings.run_consumer {
            tasks.push(tokio::spawn(shop.clone().consume()));
        }
        Ok(Self { shop, addresses, sluice, gateway, dashboard, tasks: BackgroundTasks(tasks) })
    }

    /// Bound addresses.
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The shop.
    pub const fn shop(&self) -> &Shop {
        &self.shop
    }

    /// Active rules with their counts.
    pub const fn sluice(&self) -> &Sluice {
        &self.sluice
    }

    /// Shuts down: drains gateway and dashboard, aborts the tasks, and releases this process's share of the store.
    pub async fn close(self) {
        let Self { gateway, dashboard, tasks, sluice, .. } = self;
        // Both block until their connections are drained.
        let stopping = spawn_blocking(move || {
            gateway.stop(Shutdown::Close);
            dashboard.stop(Shutdown::Close);
        });
        if stopping.await.is_err() {
            tracing::error!("the gateway or the dashboard panicked during shutdown");
        }
        tasks.abort_and_wait().await;
        if let Some(store) = store_of(&sluice) {
            store.close().await;
        }
    }
}

/// Adds the sections `gateway`, `admin` and `store` to the rules.
fn complete_rules(settings: &AppSettings, shop: SocketAddr) -> Result<String, AppError> {
    let store = match settings.limits.as_str() {
        "memory" => String::new(),
        url if url.starts_with("redis://") && !url.contains(['\'', '\n']) => {
            // A longer timeout than the default avoids refusals by a slow store; the short permit TTL frees the permits
            // of a killed process soon.
            format!("store: {{ url: '{url}', timeout: 500ms, permit_ttl: 5s }}\n")
        }
        other => return Err(AppError::Limits(other.to_owned())),
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

/// Data providers of the dashboard.
fn providers(settings: &Settings, text: String, sluice: &Sluice, gateway: &Gateway) -> Providers {
    let rules = RuleManager::new(InitialRules {
        sluice: sluice.clone(),
        origin: RulesOrigin::BuiltIn,
        text,
        settings: settings.clone(),
        side_files: Box::new(()),
    });
    let mut providers = Providers::new(sluice.clone(), rules);
    if let Store::Redis(store) = &settings.store {
        providers.store = Some(store_display_name(store));
    }
    let monitor = gateway.monitor();
    providers.gateway = Some(Arc::new(move || GatewayStats {
        connections: monitor.listener().into(),
        in_flight: monitor.in_flight(),
        responses_by_class: monitor.responses_by_class().to_vec(),
        migrated_connections: monitor.migrated_connections(),
        ..GatewayStats::default()
    }));
    providers
}
