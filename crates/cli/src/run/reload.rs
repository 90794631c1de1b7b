//! What belongs to rules besides their text: the folder of envoyproxy/ratelimit's files.

use sluicegate_admin::keeper::{Beside, InForce};
use sluicegate_config::{Report, Settings};
use sluicegate_server::{DomainsInForce, take_up_domains};

/// The folder is read with every text, and its descriptors are exchanged once their rules are in force.
pub(super) struct Folder(pub(super) DomainsInForce);

impl Beside for Folder {
    fn complete(&self, settings: &mut Settings) -> Result<InForce, Report> {
        let domains = take_up_domains(settings)?;
        let in_force = self.0.clone();
        Ok(Box::new(move || in_force.replace(domains)))
    }
}
