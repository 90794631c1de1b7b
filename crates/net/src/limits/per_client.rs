//! Per-client connection counts.
//!
//! The map holds only clients with open connections, so it is never larger than the number of admitted
//! connections. The engine's key tables have a fixed size and may let a few keys share one strict slot. That is
//! right for limits and wrong here: a client must not be rejected because of another client's connections.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

/// Connection count per client, with the maximum per client.
#[derive(Debug)]
pub(crate) struct PerClientLimit {
    max: Option<usize>,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// Key of a counted client; `None` if there is no limit.
pub(crate) type ClientKey = Option<IpAddr>;

impl PerClientLimit {
    pub(crate) fn new(max: Option<usize>) -> Self {
        Self { max, counts: Mutex::default() }
    }

    /// Counts a connection from `address`; `None` if the client has reached its maximum.
    pub(crate) fn acquire(&self, address: IpAddr) -> Option<ClientKey> {
        let Some(max) = self.max else { return Some(None) };
        let client = client_key(address);
        match self.counts.lock().entry(client) {
            Entry::Occupied(count) if *count.get() >= max => return None,
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(entry) => {
                entry.insert(1);
            }
        }
        Some(Some(client))
    }

    /// Releases one counted connection.
    pub(crate) fn release(&self, client: ClientKey) {
        let Some(client) = client else { return };
        let mut live = self.counts.lock();
        if let Entry::Occupied(mut count) = live.entry(client) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Returns the client key of an address: the address itself, or its /64. An IPv4-mapped IPv6 address counts
/// as IPv4.
fn client_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn clients_are_counted_separately_and_removed_at_zero() {
        let clients = PerClientLimit::new(Some(2));
        let first = clients.acquire(ip("203.0.113.9")).unwrap();
        let second = clients.acquire(ip("::ffff:203.0.113.9")).unwrap();
        assert!(clients.acquire(ip("203.0.113.9")).is_none());
        let other = clients.acquire(ip("203.0.113.10")).unwrap();
        clients.release(first);
        let third = clients.acquire(ip("203.0.113.9")).unwrap();
        assert!(clients.acquire(ip("203.0.113.9")).is_none());
        for client in [second, third, other] {
            clients.release(client);
        }
        assert!(clients.counts.lock().is_empty());
    }

    #[test]
    fn an_ipv6_64_is_one_client() {
        let clients = PerClientLimit::new(Some(1));
        assert!(clients.acquire(ip("2001:db8::1")).is_some());
        assert!(clients.acquire(ip("2001:db8::ffff:2")).is_none());
        assert!(clients.acquire(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn no_counts_are_stored_without_a_limit() {
        let clients = PerClientLimit::new(None);
        assert!((0..10).all(|_| clients.acquire(ip("203.0.113.9")) == Some(None)));
        assert!(clients.counts.lock().is_empty());
    }
}
