//! Services of a rule file: gateway, decision server and admin API.

use std::path::Path;
use std::sync::Arc;

use sluicegate::Sluice;
use sluicegate_admin::reload::{InitialRules, RuleManager, RulesOrigin};
use sluicegate_admin::{Admin, Providers, store_display_name};
use sluicegate_config::Settings;
use sluicegate_config::settings::{RulesFrom, Store};
use sluicegate_engine::sluice::SavedRules;
use sluicegate_gateway::Gateway;
use sluicegate_net::{CertificateError, DrainReport, Process, Shutdown};
use sluicegate_server::{ActiveDomains, Server};
use sluicegate_terminal::CommandOutput;
use tracing::info;

use super::ratelimit_dir::RatelimitDir;
use super::{logging, stats};
use crate::banner::{admin_banner, gateway_banner, server_banner};
use crate::rules::LoadedRules;

/// The running services.
pub(super) struct Services {
    sluice: Sluice,
    rule_manager: RuleManager,
    gateway: Option<sluicegate_gateway::GatewayHandle>,
    server: Option<sluicegate_server::RunningServer>,
    admin: Option<sluicegate_admin::AdminHandle>,
}

impl Services {
    /// Starts all services, or none.
    pub(super) fn start(read: LoadedRules, file: Option<&Path>, process: &mut Process) -> Result<Self, CommandOutput> {
        let LoadedRules { text, loaded, file_settings, domains } = read;
        let settings = loaded.settings;
        if settings.gateway.is_none() && settings.server.is_none() {
            return Err(CommandOutput::failed(
                "the rule file has neither `gateway` nor `server`: nothing to run; `sluicegate check` shows its content",
            ));
        }
        let failed = |error: &dyn std::fmt::Display| CommandOutput::failed(&error.to_string());
        // Unreadable state is ignored: the rules start fresh.
        let saved = process.take_inherited_state().and_then(|state| SavedRules::from_bytes(&state).ok());
        let sluice = sluicegate::resume(settings.clone(), saved).map_err(|error| failed(&error))?;
        let domains = ActiveDomains::new(domains);
        let (origin, text) = origin(&file_settings, file, text).map_err(|error| failed(&error))?;
        let side_files = Box::new(RatelimitDir(domains.clone()));
        let rule_manager = RuleManager::new(InitialRules {
            sluice: sluice.clone(),
            origin,
            text,
            settings: file_settings,
            side_files,
        });
        // The parser has already resolved all paths relative to the rule file.
        let base = Path::new("");
        let gateway = settings.gateway.as_ref().map(|it| Gateway::open(&settings, it, sluice.clone(), base, process));
        let gateway = gateway.transpose().map_err(|error| failed(&error))?;
        let server = settings.server.as_ref();
        let server = server.map(|it| Server::open(&settings, it, sluice.clone(), domains, base, process));
        let server = server.transpose().map_err(|error| failed(&error))?;
        let controller = stats::start_controller(&sluice, gateway.as_ref().map(|it| it.monitor()));
        let controller = controller.map_err(|error| {
            failed(&format_args!("cannot start the control loop for rules with `adaptive`: {error}"))
        })?;
        let admin = settings.admin.as_ref().map(|it| {
            let mut providers = Providers::new(sluice.clone(), rule_manager.clone());
            if let Store::Redis(store) = &settings.store {
                providers.store = Some(store_display_name(store));
            }
            providers.readings = Some(Arc::new(move || controller.readings()));
            providers.gateway = gateway.as_ref().map(|it| stats::gateway_stats(it.monitor()));
            providers.server = server.as_ref().map(|it| stats::server_stats(it.monitor()));
            Admin::open(it, providers, base, process)
        });
        let admin = admin.transpose().map_err(|error| failed(&error))?;
        process.close_unclaimed();
        // All configuration errors have been reported: start serving.
        let log_line = |line: &str| info!("{line}");
        let gateway = gateway.map(|it| it.start(log_line)).transpose().map_err(|error| failed(&error))?;
        let server = server.map(|it| it.start(log_line)).transpose().map_err(|error| failed(&error))?;
        let admin = admin.map(|it| it.start(log_line)).transpose().map_err(|error| failed(&error))?;
        if let (Some(running), Some(gateway)) = (&gateway, &settings.gateway) {
            logging::print_banner(settings.log, &gateway_banner(&settings, gateway, running.addresses()));
        }
        if let (Some(running), Some(server)) = (&server, &settings.server) {
            logging::print_banner(settings.log, &server_banner(server, running.addresses()));
        }
        if let (Some(running), Some(admin)) = (&admin, &settings.admin) {
            logging::print_banner(settings.log, &admin_banner(admin, running.address()));
        }
        Ok(Self { sluice, rule_manager, gateway, server, admin })
    }

    pub(super) const fn rule_manager(&self) -> &RuleManager {
        &self.rule_manager
    }

    pub(super) const fn sluice(&self) -> &Sluice {
        &self.sluice
    }

    pub(super) fn reopen_log(&self) {
        if let Some(gateway) = &self.gateway {
            gateway.reopen_log();
        }
    }

    /// Reloads all certificates. Returns the errors of those that stay unchanged.
    pub(super) async fn reload_certificates(&self) -> Vec<CertificateError> {
        let mut errors = Vec::new();
        if let Some(gateway) = &self.gateway {
            errors.extend(gateway.reload_certificates().await);
        }
        if let Some(server) = &self.server {
            errors.extend(server.reload_certificates().await);
        }
        if let Some(admin) = &self.admin {
            errors.extend(admin.reload_certificates().await);
        }
        errors
    }

    /// The decision server, if it announces its shutdown to clients first.
    pub(super) fn draining(&self) -> Option<&sluicegate_server::RunningServer> {
        self.server.as_ref().filter(|server| server.has_shutdown_delay())
    }

    /// Stops all services concurrently.
    pub(super) fn stop(self, shutdown: Shutdown) -> DrainReport {
        let Self { gateway, server, admin, .. } = self;
        std::thread::scope(|scope| {
            let server = server.map(|it| scope.spawn(move || it.stop(shutdown)));
            // Admin connections are not part of the report.
            let admin = admin.map(|it| scope.spawn(move || it.stop(shutdown)));
            let gateway = gateway.map(|it| it.stop(shutdown)).unwrap_or_default();
            let report = gateway.merge(server.and_then(|it| it.join().ok()).unwrap_or_default());
            drop(admin.map(|it| it.join()));
            report
        })
    }
}

/// Origin of the rules, with their text.
fn origin(settings: &Settings, file: Option<&Path>, text: String) -> Result<(RulesOrigin, String), &'static str> {
    match (file, settings.rules_from) {
        (None, RulesFrom::File) => Ok((RulesOrigin::BuiltIn, text)),
        (Some(path), RulesFrom::File) => Ok((RulesOrigin::File(path.to_owned()), text)),
        (Some(path), RulesFrom::Store) => {
            let shared = sluicegate_config::shareable_text(&text, settings).ok_or(
                "rules_from: store: the rules use anchors or aliases of other parts of the file and cannot be shared: \
                 write them out",
            )?;
            Ok((RulesOrigin::Store(path.to_owned()), shared))
        }
        (None, RulesFrom::Store) => Err("rules_from: store: rules from standard input cannot be shared: use a file"),
    }
}
