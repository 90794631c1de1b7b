//! Whether a target may be loaded at all.
//!
//! A load test of somebody else's service is an attack. So only this machine is loaded without being asked for twice:
//! once that the target is one's own, and once by its name, which is not typed by accident and not left over from the
//! command before.

use std::net::{IpAddr, SocketAddr};

use crate::args;

/// Why a target is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "--yes-load names {named}, but the URL names {host}: nothing was sent; name the host that is meant in both"
    )]
    OtherHost { named: String, host: String },
    #[error(
        "{host} is not this machine ({address}): nothing was sent; if you may load it, say so twice, with \
         --target-is-mine and --yes-load {host}"
    )]
    Foreign { host: String, address: IpAddr },
    #[error("{host} is not this machine: nothing was sent; --target-is-mine is given, --yes-load {host} is missing")]
    NotNamed { host: String },
    #[error("{host} is not this machine: nothing was sent; --yes-load {host} is given, --target-is-mine is missing")]
    NotMine { host: String },
}

/// What was said about the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Permit {
    is_mine: bool,
    named: Option<String>,
}

impl Permit {
    pub(super) fn new(args: &args::Probe) -> Self {
        Self { is_mine: args.target_is_mine, named: args.yes_load.clone() }
    }

    /// Before anything is looked up: whether the two names agree.
    pub(super) fn agrees(&self, host: &str) -> Result<(), Refusal> {
        match &self.named {
            Some(named) if !named.trim_matches(['[', ']']).eq_ignore_ascii_case(host) => {
                Err(Refusal::OtherHost { named: named.clone(), host: host.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Before anything is sent: whether the host, which has these addresses, may be loaded.
    pub(super) fn allows(&self, host: &str, addresses: &[SocketAddr]) -> Result<(), Refusal> {
        self.agrees(host)?;
        let foreign = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
        let Some(foreign) = foreign else { return Ok(()) };
        let host = host.to_owned();
        match (self.is_mine, &self.named) {
            (true, Some(_)) => Ok(()),
            (true, None) => Err(Refusal::NotNamed { host }),
            (false, Some(_)) => Err(Refusal::NotMine { host }),
            (false, None) => Err(Refusal::Foreign { host, address: foreign.ip() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, addresses: &[&str], is_mine: bool, named: Option<&str>) -> Result<(), String> {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 80)).collect();
        let permit = Permit { is_mine, named: named.map(str::to_owned) };
        permit.allows(host, &addresses).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn this_machine_needs_no_permit() {
        for address in ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(asked("localhost", &[address], false, None), Ok(()), "{address}");
        }
    }

    #[test]
    fn other_machines_need_both() {
        let host = "shop.example";
        for addresses in [&["192.0.2.7"][..], &["127.0.0.1", "192.0.2.7"], &["::ffff:192.0.2.7"], &["0.0.0.0"]] {
            let neither = asked(host, addresses, false, None).unwrap_err();
            assert!(neither.contains("--target-is-mine and --yes-load shop.example"), "{neither}");
            let one = asked(host, addresses, true, None).unwrap_err();
            assert!(one.ends_with("--yes-load shop.example is missing"), "{one}");
            let other = asked(host, addresses, false, Some(host)).unwrap_err();
            assert!(other.ends_with("--target-is-mine is missing"), "{other}");
            assert_eq!(asked(host, addresses, true, Some("Shop.Example")), Ok(()));
        }
        assert_eq!(asked("2001:db8::1", &["2001:db8::1"], true, Some("[2001:db8::1]")), Ok(()));
    }

    #[test]
    fn names_that_differ_are_both_named() {
        for is_mine in [false, true] {
            let told = asked("shop.example", &["192.0.2.7"], is_mine, Some("shop.test")).unwrap_err();
            assert!(told.contains("names shop.test") && told.contains("names shop.example"), "{told}");
        }
        assert!(asked("localhost", &["127.0.0.1"], true, Some("shop.example")).is_err(), "also on this machine");
    }
}
