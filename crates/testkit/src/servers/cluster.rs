//! Redis Cluster with three primaries.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{StartError, free_ports};
use super::redis::RedisServer;
use super::redis_cli::expect_ok;

/// Time limit for the nodes to form a cluster. Only prevents a hang.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// First and last slot of each primary.
const SLOT_RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Three primaries that together own all slots.
#[derive(Debug)]
pub struct RedisCluster {
    servers: [RedisServer; 3],
}

impl RedisCluster {
    /// Starts the nodes and waits until all report a healthy cluster.
    pub fn start() -> Result<Self, StartError> {
        let bus_ports: [u16; 3] = free_ports()?;
        let start_node = |bus: u16| {
            let bus = bus.to_string();
            let options = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"];
            RedisServer::start_with(&options)
        };
        let cluster =
            Self { servers: [start_node(bus_ports[0])?, start_node(bus_ports[1])?, start_node(bus_ports[2])?] };
        for (index, (server, (first, last))) in cluster.servers.iter().zip(SLOT_RANGES).enumerate() {
            let port = server.port();
            expect_ok(port, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            expect_ok(port, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
        for (server, bus) in cluster.servers.iter().zip(bus_ports).skip(1) {
            let port = server.port().to_string();
            expect_ok(cluster.servers[0].port(), &["CLUSTER", "MEET", "127.0.0.1", &port, &bus.to_string()])?;
        }
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let start = Instant::now();
        for server in &self.servers {
            loop {
                let info = server.command(&["CLUSTER", "INFO"])?;
                let has_line = |line: &str| info.lines().any(|it| it.trim() == line);
                if has_line("cluster_state:ok")
                    && has_line("cluster_known_nodes:3")
                    && has_line("cluster_slots_ok:16384")
                {
                    break;
                }
                if start.elapsed() > READY_TIMEOUT {
                    return Err(io::Error::other(format!("timed out waiting for the cluster: {info}")));
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// `127.0.0.1:port` of each node.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::address).collect()
    }

    /// The nodes. Each initially owns a third of the slots, in order.
    pub const fn servers(&mut self) -> &mut [RedisServer; 3] {
        &mut self.servers
    }

    /// Begins a slot migration: the old owner redirects requests for missing keys to the new one (`ASK`).
    pub fn begin_slot_migration(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, ids) = (slot.to_string(), self.node_ids(from, to)?);
        expect_ok(self.servers[to].port(), &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids.0])?;
        expect_ok(self.servers[from].port(), &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids.1])
    }

    /// Moves the keys of a migrating slot.
    pub fn migrate_keys(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, port) = (slot.to_string(), self.servers[to].port().to_string());
        loop {
            let keys = self.servers[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let mut args = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            args.extend(keys);
            match self.servers[from].command(&args)?.as_str() {
                "OK" | "NOKEY" => {}
                other => return Err(io::Error::other(format!("MIGRATE: {other}"))),
            }
        }
    }

    /// Finishes a slot migration: assigns the slot to the new owner on both nodes.
    pub fn finish_slot_migration(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, ids) = (slot.to_string(), self.node_ids(from, to)?);
        expect_ok(self.servers[to].port(), &["CLUSTER", "SETSLOT", &slot, "NODE", &ids.1])?;
        expect_ok(self.servers[from].port(), &["CLUSTER", "SETSLOT", &slot, "NODE", &ids.1])
    }

    fn node_ids(&self, from: usize, to: usize) -> io::Result<(String, String)> {
        let id = |index: usize| self.servers[index].command(&["CLUSTER", "MYID"]);
        Ok((id(from)?, id(to)?))
    }
}
