//! What is in a head that needs attention, found in one look.
//!
//! Most requests have none of it. To ask a map of headers for each name would cost more than all the rest
//! that is done to the head.

use http::header::{CONNECTION, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};

use super::hops::is_of_hop;
use super::origin::{is_hearsay, is_retold};

/// What a look at the headers found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Survey {
    /// How many `Host`s there are, as far as that matters.
    pub(crate) hosts: u8,
    /// Whether some are for the next hop only.
    pub(crate) of_hop: bool,
    /// Whether another protocol may be asked for.
    pub(crate) upgrade: bool,
    /// Whether the body has a transfer coding.
    pub(crate) coded: bool,
    /// Whether the client expects something before it sends its body.
    pub(crate) expects: bool,
    /// Whether something is said of who the client is, or what it asked for, that only a proxy may say.
    pub(crate) hearsay: bool,
    /// Whether that is said which is made anew.
    pub(crate) retold: bool,
}

impl Survey {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut survey = Self::default();
        for (name, _) in headers {
            match *name {
                HOST => survey.hosts = survey.hosts.saturating_add(1),
                CONNECTION | TE => survey.of_hop = true,
                TRANSFER_ENCODING => (survey.of_hop, survey.coded) = (true, true),
                UPGRADE => (survey.of_hop, survey.upgrade) = (true, true),
                EXPECT => survey.expects = true,
                FORWARDED => survey.hearsay = true,
                _ => survey.look_at(name),
            }
        }
        survey
    }

    /// Looks at rarer names.
    fn look_at(&mut self, name: &HeaderName) {
        if is_of_hop(name) {
            self.of_hop = true;
        } else if is_hearsay(name) {
            self.hearsay = true;
        } else if is_retold(name) {
            self.retold = true;
        }
    }
}
