//! In-process decision server started from the text of a rule file.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use sluicegate_engine::Sluice;
use sluicegate_net::{DrainReport, Process, Shutdown};
use sluicegate_server::{ActiveDomains, RunningServer, Server, apply_domains};

use super::endpoint::TestEndpoint;
use super::temp_dir::TempDir;

/// Running decision server. Dropping it stops it at once.
pub struct TestDecisionServer {
    pub sluice: Sluice,
    pub running: RunningServer,
    pub process: Process,
    /// Messages reported to the operator.
    pub messages: Arc<Mutex<Vec<String>>>,
}

impl TestDecisionServer {
    /// Starts a server with this rule file, which may refer to files in the directory.
    pub fn start(dir: &TempDir, rules: &str) -> Self {
        match Self::try_start(dir, rules) {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn try_start(dir: &TempDir, rules: &str) -> Result<Self, String> {
        let file = dir.write("rules.yaml", rules);
        let mut settings = sluicegate_config::load(&file).map_err(|report| report.to_string())?.settings;
        let domains = apply_domains(&mut settings).map_err(|report| report.to_string())?;
        let sluice = sluicegate::resume(settings.clone(), None).map_err(|error| error.to_string())?;
        let mut process = Process::standalone();
        let server = settings.server.as_ref().expect("the rule file has a `server` section");
        let opened =
            Server::open(&settings, server, sluice.clone(), ActiveDomains::new(domains), Path::new(""), &mut process);
        let server = opened.map_err(|error| error.to_string())?;
        let messages: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&messages);
        let started = server.start(move |line| sink.lock().unwrap().push(line.to_owned()));
        Ok(Self { sluice, running: started.map_err(|error| error.to_string())?, process, messages })
    }

    /// Listening addresses, in the order RLS, HTTP, RESP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.running.addresses().iter().copied().flatten().collect()
    }

    pub fn endpoint(&self, index: usize) -> TestEndpoint {
        TestEndpoint::Tcp(self.addresses()[index])
    }

    /// Stops the server as the program does on a signal, on a blocking thread.
    pub async fn stop(self, shutdown: Shutdown) -> DrainReport {
        let Self { running, mut process, sluice, .. } = self;
        let stopping = tokio::task::spawn_blocking(move || {
            process.release_sockets(true);
            running.stop(shutdown)
        });
        let report = super::with_timeout("the server stops", stopping).await.unwrap();
        drop(sluice);
        report
    }
}
