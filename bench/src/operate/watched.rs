//! Somebody who watches: a dashboard that is open, and a scraper.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::programs::client::{Client, get};

/// How often metrics are scraped: ten times as often as is usual.
const SCRAPE: Duration = Duration::from_secs(1);

/// Watches a program until it is dropped.
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    dashboard: TcpStream,
}

impl Watcher {
    /// Watches the program whose admin pages are at this port.
    pub(crate) fn of(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let scraping = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let metrics = Client::connect(port).ask(&get_local("/metrics"));
                assert_eq!(metrics.status, 200, "{}", metrics.head);
                thread::park_timeout(SCRAPE);
            }
        });
        let mut dashboard = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
        dashboard.write_all(&get_local("/v1/live")).expect("it reads");
        let mut reader = dashboard.try_clone().expect("the same connection");
        let reading = thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while reader.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
        Self { stop, threads: vec![scraping, reading], dashboard }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.dashboard.shutdown(std::net::Shutdown::Both));
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

/// A request as this machine's own programs send it: without a token, only they may ask.
fn get_local(path: &str) -> Vec<u8> {
    let request = String::from_utf8(get(path)).expect("ASCII");
    request.replace("Host: bench.test", "Host: localhost").into_bytes()
}
