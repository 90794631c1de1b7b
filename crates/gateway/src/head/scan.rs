//! One-pass scan for headers that need special handling.
//!
//! Most requests have none of them. Looking up each name in the header map would cost more than all other work
//! on the head.

use http::header::{CONNECTION, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};

use super::forwarded::{is_rewritten, is_untrusted_forwarded};
use super::hop_by_hop::is_hop_by_hop;

/// Result of a header scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct HeaderScan {
    /// Number of `Host` headers (saturating).
    pub(crate) hosts: u8,
    /// Set if there are hop-by-hop headers.
    pub(crate) hop_by_hop: bool,
    /// Set if there is an `Upgrade` header.
    pub(crate) upgrade: bool,
    /// Set if there is a `Transfer-Encoding` header.
    pub(crate) has_transfer_encoding: bool,
    /// Set if there is an `Expect` header.
    pub(crate) has_expect: bool,
    /// Set if there are forwarded headers that only a proxy may set.
    pub(crate) untrusted_forwarded: bool,
    /// Set if there are headers that the gateway rewrites in any case.
    pub(crate) rewritten: bool,
}

impl HeaderScan {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut scan = Self::default();
        for (name, _) in headers {
            match *name {
                HOST => scan.hosts = scan.hosts.saturating_add(1),
                CONNECTION | TE => scan.hop_by_hop = true,
                TRANSFER_ENCODING => (scan.hop_by_hop, scan.has_transfer_encoding) = (true, true),
                UPGRADE => (scan.hop_by_hop, scan.upgrade) = (true, true),
                EXPECT => scan.has_expect = true,
                FORWARDED => scan.untrusted_forwarded = true,
                _ => scan.scan_rare(name),
            }
        }
        scan
    }

    /// Classifies less common names.
    fn scan_rare(&mut self, name: &HeaderName) {
        if is_hop_by_hop(name) {
            self.hop_by_hop = true;
        } else if is_untrusted_forwarded(name) {
            self.untrusted_forwarded = true;
        } else if is_rewritten(name) {
            self.rewritten = true;
        }
    }
}
