//! Authorization to load a target.
//!
//! A load test of a service without permission is an attack. So targets on other machines need two flags: one
//! that confirms the permission, and one that repeats the host name, which is not typed by accident and not left
//! over from the previous command. This machine needs neither.

use std::net::{IpAddr, SocketAddr};

use crate::args::ProbeArgs;

/// Reason that a target is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthorizationError {
    #[error(
        "--yes-load {named} does not match the host {host} of the URL: nothing was sent; use the same host in both"
    )]
    OtherHost { named: String, host: String },
    #[error(
        "{host} is not this machine ({address}): nothing was sent; if you may load it, confirm it with \
         --target-is-mine and --yes-load {host}"
    )]
    Foreign { host: String, address: IpAddr },
    #[error("{host} is not this machine: nothing was sent; --yes-load {host} is missing")]
    NotNamed { host: String },
    #[error("{host} is not this machine: nothing was sent; --target-is-mine is missing")]
    NotMine { host: String },
}

/// Authorization flags of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LoadAuthorization {
    is_mine: bool,
    named: Option<String>,
}

impl LoadAuthorization {
    pub(super) fn new(args: &ProbeArgs) -> Self {
        Self { is_mine: args.target_is_mine, named: args.yes_load.clone() }
    }

    /// Checks, before any lookup, that the two host names are equal.
    pub(super) fn check_name(&self, host: &str) -> Result<(), AuthorizationError> {
        match &self.named {
            Some(named) if !named.trim_matches(['[', ']']).eq_ignore_ascii_case(host) => {
                Err(AuthorizationError::OtherHost { named: named.clone(), host: host.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Checks, before sending anything, that the host with these addresses may be loaded.
    pub(super) fn check_addresses(&self, host: &str, addresses: &[SocketAddr]) -> Result<(), AuthorizationError> {
        self.check_name(host)?;
        let foreign = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
        let Some(foreign) = foreign else { return Ok(()) };
        let host = host.to_owned();
        match (self.is_mine, &self.named) {
            (true, Some(_)) => Ok(()),
            (true, None) => Err(AuthorizationError::NotNamed { host }),
            (false, Some(_)) => Err(AuthorizationError::NotMine { host }),
            (false, None) => Err(AuthorizationError::Foreign { host, address: foreign.ip() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorize(host: &str, addresses: &[&str], is_mine: bool, named: Option<&str>) -> Result<(), String> {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 80)).collect();
        let authorization = LoadAuthorization { is_mine, named: named.map(str::to_owned) };
        authorization.check_addresses(host, &addresses).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn this_machine_needs_no_authorization() {
        for address in ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(authorize("localhost", &[address], false, None), Ok(()), "{address}");
        }
    }

    #[test]
    fn other_machines_need_both_flags() {
        let host = "shop.example";
        for addresses in [&["192.0.2.7"][..], &["127.0.0.1", "192.0.2.7"], &["::ffff:192.0.2.7"], &["0.0.0.0"]] {
            let neither = authorize(host, addresses, false, None).unwrap_err();
            assert!(neither.contains("--target-is-mine and --yes-load shop.example"), "{neither}");
            let one = authorize(host, addresses, true, None).unwrap_err();
            assert!(one.ends_with("--yes-load shop.example is missing"), "{one}");
            let other = authorize(host, addresses, false, Some(host)).unwrap_err();
            assert!(other.ends_with("--target-is-mine is missing"), "{other}");
            assert_eq!(authorize(host, addresses, true, Some("Shop.Example")), Ok(()));
        }
        assert_eq!(authorize("2001:db8::1", &["2001:db8::1"], true, Some("[2001:db8::1]")), Ok(()));
    }

    #[test]
    fn differing_names_are_both_shown() {
        for is_mine in [false, true] {
            let error = authorize("shop.example", &["192.0.2.7"], is_mine, Some("shop.test")).unwrap_err();
            assert!(error.contains("--yes-load shop.test") && error.contains("host shop.example"), "{error}");
        }
        assert!(authorize("localhost", &["127.0.0.1"], true, Some("shop.example")).is_err(), "also on this machine");
    }
}
