//! Directory of envoyproxy/ratelimit files, reloaded with the rules.

use sluicegate_admin::reload::{OnApplied, SideFiles};
use sluicegate_config::{Report, Settings};
use sluicegate_server::{ActiveDomains, apply_domains};

/// Reads the directory with each rule text; its descriptors are swapped once their rules are active.
pub(super) struct RatelimitDir(pub(super) ActiveDomains);

impl SideFiles for RatelimitDir {
    fn load(&self, settings: &mut Settings) -> Result<OnApplied, Report> {
        let domains = apply_domains(settings)?;
        let active = self.0.clone();
        Ok(Box::new(move || active.replace(domains)))
    }
}
