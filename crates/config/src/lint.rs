use crate::read::Context;
pub(crate) fn rules(_: &Context<'_>, _: &[crate::read::ReadRule], _: u64, _: &crate::settings::Store) {}
