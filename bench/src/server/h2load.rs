//! Runs h2load with one repeated request.

use std::process::Command;

use crate::programs::program::Program;
use crate::programs::temp_dir::TempDir;

/// Request and client options of an h2load run.
pub(crate) struct H2Load {
    /// Request path.
    pub(crate) path: &'static str,
    /// Additional options: connections, streams, headers.
    pub(crate) options: &'static [&'static str],
    /// Request body.
    pub(crate) body: Vec<u8>,
    /// Minimum size of each response.
    pub(crate) min_response_bytes: u64,
}

impl H2Load {
    /// Sends `requests` requests and returns requests per second. Panics if a request fails.
    pub(crate) fn per_second(&self, program: &Program, requests: u32) -> f64 {
        let dir = TempDir::with_file("body", &self.body);
        let output = Command::new("h2load")
            // Two threads: the load generator must not be the bottleneck.
            .args(["-t", "2", "-n", &requests.to_string()])
            .args(self.options)
            .arg("-d")
            .arg(dir.path().join("body"))
            .arg(format!("http://127.0.0.1:{}{}", program.port(), self.path))
            .output()
            .expect("h2load runs; `scripts/setup bench` installs it");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let report = H2LoadReport::parse(&stdout).filter(|_| output.status.success());
        let report = report.unwrap_or_else(|| panic!("h2load: {stdout}{}", String::from_utf8_lossy(&output.stderr)));
        let requests = u64::from(requests);
        let name = program.name();
        assert!(report.succeeded == requests && report.ok == requests, "{name}: requests failed: {stdout}");
        assert!(report.bytes >= requests * self.min_response_bytes, "{name}: responses are too short: {stdout}");
        report.per_second
    }
}

/// Report of h2load.
struct H2LoadReport {
    per_second: f64,
    succeeded: u64,
    /// Responses with a 2xx status.
    ok: u64,
    /// Bytes of the response bodies, without headers and trailers.
    bytes: u64,
}

impl H2LoadReport {
    fn parse(output: &str) -> Option<Self> {
        let line = |prefix| output.lines().find_map(|line| line.strip_prefix(prefix));
        let part = |prefix, suffix| line(prefix)?.split(", ").find_map(|part: &str| part.strip_suffix(suffix));
        Some(Self {
            per_second: part("finished in ", " req/s")?.parse().ok()?,
            succeeded: part("requests: ", " succeeded")?.parse().ok()?,
            ok: part("status codes: ", " 2xx")?.parse().ok()?,
            bytes: part("traffic: ", ") data")?.rsplit('(').next()?.parse().ok()?,
        })
    }
}
