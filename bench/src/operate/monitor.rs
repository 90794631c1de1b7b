//! Monitoring load: an open dashboard and a metrics scraper.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::programs::client::{Client, get};

/// Scrape interval: a tenth of the usual one.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// Monitors a program until it is dropped.
pub(crate) struct Monitor {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    dashboard: TcpStream,
}

impl Monitor {
    /// Starts to monitor the program with the admin API on this port.
    pub(crate) fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let scraping = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let metrics = Client::connect(port).request(&get_local("/metrics"));
                assert_eq!(metrics.status, 200, "{}", metrics.head);
                thread::park_timeout(SCRAPE_INTERVAL);
            }
        });
        let mut dashboard = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connection opens");
        dashboard.write_all(&get_local("/v1/live")).expect("request is sent");
        let mut reader = dashboard.try_clone().expect("socket clones");
        let reading = thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while reader.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
        Self { stop, threads: vec![scraping, reading], dashboard }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.dashboard.shutdown(std::net::Shutdown::Both));
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

/// GET request with `Host: localhost`: without a token, the admin API only allows local requests.
fn get_local(path: &str) -> Vec<u8> {
    let request = String::from_utf8(get(path)).expect("ASCII");
    request.replace("Host: bench.test", "Host: localhost").into_bytes()
}
