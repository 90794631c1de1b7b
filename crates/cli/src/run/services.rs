//! What a rule file says is to run, running.

use std::path::Path;
use std::sync::Arc;

use sluicegate::Sluice;
use sluicegate_admin::keeper::{Keeper, Origin, Start};
use sluicegate_admin::{Admin, Sources, store_name};
use sluicegate_config::Settings;
use sluicegate_config::settings::{RulesFrom, Store};
use sluicegate_gateway::Gateway;
use sluicegate_listen::{CertificateError, Process, Report, Stop};
use sluicegate_server::{DomainsInForce, Server};
use tracing::info;

use super::reload::Folder;
use super::{diary, vitals};
use crate::answer::Answer;
use crate::greeting::{admin_greeting, greeting, server_greeting};
use crate::rules::Read;

/// Gateway, decision server and admin pages, as far as they run.
pub(super) struct Services {
    sluice: Sluice,
    keeper: Keeper,
    gateway: Option<sluicegate_gateway::Running>,
    server: Option<sluicegate_server::Running>,
    admin: Option<sluicegate_admin::Running>,
}

impl Services {
    /// Starts all of it, or nothing.
    pub(super) fn start(read: Read, file: Option<&Path>, process: &mut Process) -> Result<Self, Answer> {
        let Read { text, loaded, written, domains } = read;
        let settings = loaded.settings;
        if settings.gateway.is_none() && settings.server.is_none() {
            return Err(Answer::failed(
                "the file has neither `gateway` nor `server`: there is nothing to run; `sluicegate check` shows what \
                 it says",
            ));
        }
        let failed = |error: &dyn std::fmt::Display| Answer::failed(&error.to_string());
        let remembered = process.take_remembered();
        let sluice = sluicegate::resume(settings.clone(), remembered).map_err(|error| failed(&error))?;
        let domains = DomainsInForce::new(domains);
        let (origin, text) = origin(&written, file, text).map_err(|error| failed(&error))?;
        let beside = Box::new(Folder(domains.clone()));
        let keeper = Keeper::new(Start { sluice: sluice.clone(), origin, text, settings: written, beside });
        // The reader has looked up all files from the folder of the rule file.
        let base = Path::new("");
        let gateway = settings.gateway.as_ref().map(|it| Gateway::open(&settings, it, sluice.clone(), base, process));
        let gateway = gateway.transpose().map_err(|error| failed(&error))?;
        let server = settings.server.as_ref();
        let server = server.map(|it| Server::open(&settings, it, sluice.clone(), domains, base, process));
        let server = server.transpose().map_err(|error| failed(&error))?;
        let steering = vitals::steer(&sluice, gateway.as_ref().map(|it| it.vitals()));
        let steering =
            steering.map_err(|error| failed(&format_args!("no thread for rules with `adaptive`: {error}")))?;
        let admin = settings.admin.as_ref().map(|it| {
            let mut sources = Sources::new(sluice.clone(), keeper.clone());
            if let Store::Redis(store) = &settings.store {
                sources.store = Some(store_name(store));
            }
            sources.readings = Some(Arc::new(move || steering.readings()));
            sources.gateway = gateway.as_ref().map(|it| vitals::of_gateway(it.vitals()));
            sources.server = server.as_ref().map(|it| vitals::of_server(it.vitals()));
            Admin::open(it, sources, base, process)
        });
        let admin = admin.transpose().map_err(|error| failed(&error))?;
        process.close_the_rest();
        // Everything that can be wrong has been found: now it is served.
        let tell = |line: &str| info!("{line}");
        let gateway = gateway.map(|it| it.start(tell)).transpose().map_err(|error| failed(&error))?;
        let server = server.map(|it| it.start(tell)).transpose().map_err(|error| failed(&error))?;
        let admin = admin.map(|it| it.start(tell)).transpose().map_err(|error| failed(&error))?;
        if let (Some(running), Some(gateway)) = (&gateway, &settings.gateway) {
            diary::greet(settings.log, &greeting(&settings, gateway, running.addresses()));
        }
        if let (Some(running), Some(server)) = (&server, &settings.server) {
            diary::greet(settings.log, &server_greeting(server, running.addresses()));
        }
        if let (Some(running), Some(admin)) = (&admin, &settings.admin) {
            diary::greet(settings.log, &admin_greeting(admin, running.address()));
        }
        Ok(Self { sluice, keeper, gateway, server, admin })
    }

    pub(super) const fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(super) const fn sluice(&self) -> &Sluice {
        &self.sluice
    }

    pub(super) fn reopen_log(&self) {
        if let Some(gateway) = &self.gateway {
            gateway.reopen_log();
        }
    }

    /// Reads all certificates again, and answers what is wrong with those that stay as they were.
    pub(super) async fn reload_certificates(&self) -> Vec<CertificateError> {
        let mut bad = Vec::new();
        if let Some(gateway) = &self.gateway {
            bad.extend(gateway.reload_certificates().await);
        }
        if let Some(server) = &self.server {
            bad.extend(server.reload_certificates().await);
        }
        if let Some(admin) = &self.admin {
            bad.extend(admin.reload_certificates().await);
        }
        bad
    }

    /// The decision server, if its clients are to learn first that it will stop.
    pub(super) fn draining(&self) -> Option<&sluicegate_server::Running> {
        self.server.as_ref().filter(|server| server.drains())
    }

    /// Stops all of it, at the same time.
    pub(super) fn stop(self, how: Stop) -> Report {
        let Self { gateway, server, admin, .. } = self;
        std::thread::scope(|scope| {
            let server = server.map(|it| scope.spawn(move || it.stop(how)));
            // Whoever watches is not one of those who were served.
            let admin = admin.map(|it| scope.spawn(move || it.stop(how)));
            let gateway = gateway.map(|it| it.stop(how)).unwrap_or_default();
            let report = gateway.and(server.and_then(|it| it.join().ok()).unwrap_or_default());
            drop(admin.map(|it| it.join()));
            report
        })
    }
}

/// Where the text of the rules lives, and what it is there.
fn origin(settings: &Settings, file: Option<&Path>, text: String) -> Result<(Origin, String), &'static str> {
    match (file, settings.rules_from) {
        (None, RulesFrom::File) => Ok((Origin::BuiltIn, text)),
        (Some(path), RulesFrom::File) => Ok((Origin::File(path.to_owned()), text)),
        (Some(path), RulesFrom::Store) => {
            let shared = sluicegate_config::shared_text(&text, settings).ok_or(
                "rules_from: store: the rules of the file cannot be shared as they are written, as they repeat what \
                 stands elsewhere in it: write them out",
            )?;
            Ok((Origin::Store(path.to_owned()), shared))
        }
        (None, RulesFrom::Store) => Err("rules_from: store: rules from standard input cannot be shared: name a file"),
    }
}
