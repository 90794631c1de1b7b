//! A Redis Cluster of three primaries.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{StartError, free_ports};
use super::redis::RedisServer;
use super::redis_cli::expect_ok;

/// How long the three may take to agree. Only a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first and last slot of each.
const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Three primaries that share all slots among them.
#[derive(Debug)]
pub struct RedisCluster {
    servers: [RedisServer; 3],
}

impl RedisCluster {
    /// Starts them and waits until all say that the cluster is well.
    pub fn start() -> Result<Self, StartError> {
        let buses: [u16; 3] = free_ports()?;
        let start = |bus: u16| {
            let bus = bus.to_string();
            let options = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"];
            RedisServer::start_with(&options)
        };
        let cluster = Self { servers: [start(buses[0])?, start(buses[1])?, start(buses[2])?] };
        for (nth, (server, (first, last))) in cluster.servers.iter().zip(RANGES).enumerate() {
            let port = server.port();
            expect_ok(port, &["CLUSTER", "SET-CONFIG-EPOCH", &(nth + 1).to_string()])?;
            expect_ok(port, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
        for (server, bus) in cluster.servers.iter().zip(buses).skip(1) {
            let port = server.port().to_string();
            expect_ok(cluster.servers[0].port(), &["CLUSTER", "MEET", "127.0.0.1", &port, &bus.to_string()])?;
        }
        cluster.wait_until_well()?;
        Ok(cluster)
    }

    fn wait_until_well(&self) -> io::Result<()> {
        let begun = Instant::now();
        for server in &self.servers {
            loop {
                let info = server.command(&["CLUSTER", "INFO"])?;
                let says = |line: &str| info.lines().any(|said| said.trim() == line);
                if says("cluster_state:ok") && says("cluster_known_nodes:3") && says("cluster_slots_ok:16384") {
                    break;
                }
                if begun.elapsed() > PATIENCE {
                    return Err(io::Error::other(format!("the cluster does not come together: {info}")));
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// `127.0.0.1:port` of each.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::address).collect()
    }

    /// The servers. Each begins with a third of the slots, in their order.
    pub const fn servers(&mut self) -> &mut [RedisServer; 3] {
        &mut self.servers
    }

    /// Begins to move a slot: keys that the old owner does not have are asked of the new one from now on.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, ids) = (slot.to_string(), self.ids(from, to)?);
        expect_ok(self.servers[to].port(), &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids.0])?;
        expect_ok(self.servers[from].port(), &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids.1])
    }

    /// Moves the keys of a slot that is being moved.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, port) = (slot.to_string(), self.servers[to].port().to_string());
        loop {
            let keys = self.servers[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys);
            match self.servers[from].command(&words)?.as_str() {
                "OK" | "NOKEY" => {}
                other => return Err(io::Error::other(format!("MIGRATE: {other}"))),
            }
        }
    }

    /// Makes the new owner of a slot its owner for all.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, ids) = (slot.to_string(), self.ids(from, to)?);
        expect_ok(self.servers[to].port(), &["CLUSTER", "SETSLOT", &slot, "NODE", &ids.1])?;
        expect_ok(self.servers[from].port(), &["CLUSTER", "SETSLOT", &slot, "NODE", &ids.1])
    }

    fn ids(&self, from: usize, to: usize) -> io::Result<(String, String)> {
        let id = |nth: usize| self.servers[nth].command(&["CLUSTER", "MYID"]);
        Ok((id(from)?, id(to)?))
    }
}
