//! h2load: one request, over and over.

use std::process::Command;

use crate::programs::folder::Folder;
use crate::programs::program::Program;

/// A request, and who sends it.
pub(crate) struct Load {
    /// The path it is sent to.
    pub(crate) path: &'static str,
    /// Further options: connections, streams, headers.
    pub(crate) options: &'static [&'static str],
    /// What is sent.
    pub(crate) body: Vec<u8>,
    /// How many bytes each answer has at least.
    pub(crate) least: u64,
}

impl Load {
    /// Requests per second, of so many. None may fail.
    pub(crate) fn per_second(&self, side: &Program, requests: u32) -> f64 {
        let folder = Folder::with("body", &self.body);
        let output = Command::new("h2load")
            // Two threads: what asks must not be what holds up.
            .args(["-t", "2", "-n", &requests.to_string()])
            .args(self.options)
            .arg("-d")
            .arg(folder.path().join("body"))
            .arg(format!("http://127.0.0.1:{}{}", side.port(), self.path))
            .output()
            .expect("h2load runs; `scripts/setup bench` installs it");
        let said = String::from_utf8_lossy(&output.stdout);
        let told = Told::read(&said).filter(|_| output.status.success());
        let told = told.unwrap_or_else(|| panic!("h2load: {said}{}", String::from_utf8_lossy(&output.stderr)));
        let requests = u64::from(requests);
        assert!(told.succeeded == requests && told.ok == requests, "{} failed some: {said}", side.name());
        assert!(told.bytes >= requests * self.least, "{} answered some with nothing: {said}", side.name());
        told.per_second
    }
}

/// What h2load says.
struct Told {
    per_second: f64,
    succeeded: u64,
    /// Answers with a status of 2xx.
    ok: u64,
    /// In the answers, without heads and trailers.
    bytes: u64,
}

impl Told {
    fn read(said: &str) -> Option<Self> {
        let line = |begin| said.lines().find_map(|line| line.strip_prefix(begin));
        let part = |begin, end| line(begin)?.split(", ").find_map(|part: &str| part.strip_suffix(end));
        Some(Self {
            per_second: part("finished in ", " req/s")?.parse().ok()?,
            succeeded: part("requests: ", " succeeded")?.parse().ok()?,
            ok: part("status codes: ", " 2xx")?.parse().ok()?,
            bytes: part("traffic: ", ") data")?.rsplit('(').next()?.parse().ok()?,
        })
    }
}
