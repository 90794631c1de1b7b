//! A server of the test's own process, from the text of a rule file.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use sluicegate_engine::Sluice;
use sluicegate_listen::{Process, Report, Stop};
use sluicegate_server::{DomainsInForce, Running, Server, take_up_domains};

use super::folder::Folder;
use super::place::Place;

/// A server that serves. Dropped, it stops at once.
pub struct Served {
    pub sluice: Sluice,
    pub running: Running,
    pub process: Process,
    /// What an operator was told.
    pub told: Arc<Mutex<Vec<String>>>,
}

impl Served {
    /// Starts one by this rule file, which may name files of the folder.
    pub fn start(folder: &Folder, rules: &str) -> Self {
        match Self::try_start(folder, rules) {
            Ok(served) => served,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn try_start(folder: &Folder, rules: &str) -> Result<Self, String> {
        let file = folder.write("rules.yaml", rules);
        let mut settings = sluicegate_config::load(&file).map_err(|report| report.to_string())?.settings;
        let domains = take_up_domains(&mut settings).map_err(|report| report.to_string())?;
        let sluice = sluicegate::resume(settings.clone(), None).map_err(|error| error.to_string())?;
        let mut process = Process::alone();
        let server = settings.server.as_ref().expect("a section `server`");
        let opened =
            Server::open(&settings, server, sluice.clone(), DomainsInForce::new(domains), Path::new(""), &mut process);
        let server = opened.map_err(|error| error.to_string())?;
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = Arc::clone(&told);
        let started = server.start(move |line| hears.lock().unwrap().push(line.to_owned()));
        Ok(Self { sluice, running: started.map_err(|error| error.to_string())?, process, told })
    }

    /// Its addresses, in the order of RLS, HTTP and RESP.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.running.addresses().iter().copied().flatten().collect()
    }

    pub fn place(&self, nth: usize) -> Place {
        Place::Tcp(self.addresses()[nth])
    }

    /// Stops as a program does that is told to, on a thread that may wait.
    pub async fn stop(self, how: Stop) -> Report {
        let Self { running, mut process, sluice, .. } = self;
        let stopping = tokio::task::spawn_blocking(move || {
            process.let_go(true);
            running.stop(how)
        });
        let report = super::soon("it stops", stopping).await.unwrap();
        drop(sluice);
        report
    }
}
