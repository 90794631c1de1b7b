//! How many connections each client has.
//!
//! A map of those who have any, so it is never larger than the door lets in. The engine's tables of keys are
//! of fixed size and may make a few keys share a strict state, which is right for limits and wrong here:
//! a client must not be refused for another's connections.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

/// The connections of each client, and how many one may have.
#[derive(Debug)]
pub(crate) struct Clients {
    most: Option<usize>,
    live: Mutex<HashMap<IpAddr, usize>>,
}

/// Whose connection was counted; `None` where nobody counts.
pub(crate) type Client = Option<IpAddr>;

impl Clients {
    pub(crate) fn new(most: Option<usize>) -> Self {
        Self { most, live: Mutex::default() }
    }

    /// Counts a connection from `address`; `None` if its client has as many as it may.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Client> {
        let Some(most) = self.most else { return Some(None) };
        let client = client_of(address);
        match self.live.lock().entry(client) {
            Entry::Occupied(count) if *count.get() >= most => return None,
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(place) => {
                place.insert(1);
            }
        }
        Some(Some(client))
    }

    /// Counts one connection less of a client that was counted.
    pub(crate) fn leave(&self, client: Client) {
        let Some(client) = client else { return };
        let mut live = self.live.lock();
        if let Entry::Occupied(mut count) = live.entry(client) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// Who an address belongs to: itself, or the /64 it is in. An IPv4 address mapped into IPv6 is an IPv4
/// address.
fn client_of(address: IpAddr) -> IpAddr {
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
    fn each_client_has_its_own_count_and_none_is_kept_for_nothing() {
        let clients = Clients::new(Some(2));
        let first = clients.enter(ip("203.0.113.9")).unwrap();
        let second = clients.enter(ip("::ffff:203.0.113.9")).unwrap();
        assert!(clients.enter(ip("203.0.113.9")).is_none());
        let other = clients.enter(ip("203.0.113.10")).unwrap();
        clients.leave(first);
        let third = clients.enter(ip("203.0.113.9")).unwrap();
        assert!(clients.enter(ip("203.0.113.9")).is_none());
        for client in [second, third, other] {
            clients.leave(client);
        }
        assert!(clients.live.lock().is_empty());
    }

    #[test]
    fn a_64_of_ipv6_is_one_client() {
        let clients = Clients::new(Some(1));
        assert!(clients.enter(ip("2001:db8::1")).is_some());
        assert!(clients.enter(ip("2001:db8::ffff:2")).is_none());
        assert!(clients.enter(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn without_a_bound_nothing_is_kept() {
        let clients = Clients::new(None);
        assert!((0..10).all(|_| clients.enter(ip("203.0.113.9")) == Some(None)));
        assert!(clients.live.lock().is_empty());
    }
}
