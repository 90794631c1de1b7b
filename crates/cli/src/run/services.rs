//! What a rule file says is to run, running.

use std::path::Path;

use sluicegate::Sluice;
use sluicegate_gateway::Gateway;
use sluicegate_listen::{CertificateError, Process, Report, Stop};
use sluicegate_server::Server;

use super::say;
use crate::answer::Answer;
use crate::greeting::{greeting, server_greeting};
use crate::rules::Read;

/// Gateway and decision server, as far as they run.
pub(super) struct Services {
    sluice: Sluice,
    gateway: Option<sluicegate_gateway::Running>,
    server: Option<sluicegate_server::Running>,
}

impl Services {
    /// Starts all of it, or nothing.
    pub(super) fn start(read: Read, process: &mut Process) -> Result<Self, Answer> {
        let Read { loaded, domains } = read;
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
        // The reader has looked up all files from the folder of the rule file.
        let base = Path::new("");
        let gateway = settings.gateway.as_ref().map(|it| Gateway::open(&settings, it, sluice.clone(), base, process));
        let gateway = gateway.transpose().map_err(|error| failed(&error))?;
        let server = settings.server.as_ref();
        let server = server.map(|it| Server::open(&settings, it, sluice.clone(), domains, base, process));
        let server = server.transpose().map_err(|error| failed(&error))?;
        process.close_the_rest();
        // Everything that can be wrong has been found: now it is served.
        let gateway = gateway.map(|it| it.start(say)).transpose().map_err(|error| failed(&error))?;
        let server = server.map(|it| it.start(say)).transpose().map_err(|error| failed(&error))?;
        if let (Some(running), Some(gateway)) = (&gateway, &settings.gateway) {
            say(&greeting(&settings, gateway, running.addresses()));
        }
        if let (Some(running), Some(server)) = (&server, &settings.server) {
            say(&server_greeting(server, running.addresses()));
        }
        Ok(Self { sluice, gateway, server })
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
        bad
    }

    /// Stops all of it, at the same time.
    pub(super) fn stop(self, how: Stop) -> Report {
        let Self { gateway, server, .. } = self;
        std::thread::scope(|scope| {
            let server = server.map(|it| scope.spawn(move || it.stop(how)));
            let gateway = gateway.map(|it| it.stop(how)).unwrap_or_default();
            gateway.and(server.and_then(|it| it.join().ok()).unwrap_or_default())
        })
    }
}
