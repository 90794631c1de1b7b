//! An RLS request and its descriptor checks: all are admitted or all are given back.

use std::collections::HashSet;
use std::sync::Arc;

use sluicegate_import::envoy_ratelimit::{DescriptorMatch, Domains, LimitKind};
use smallvec::SmallVec;

use super::RlsState;
use super::bad_request::BadRequest;
use super::decode::hits;
use super::descriptor_check::{CheckContext, CheckState, DescriptorCheck, HitMode};
use super::proto::{RateLimitDescriptor, RateLimitRequest};
use super::response::RlsResponse;

/// A request under decision. If dropped before [`finish`](RlsRequest::finish), everything taken is given back.
pub(super) struct RlsRequest {
    pub(super) rls: Arc<RlsState>,
    pub(super) request: RateLimitRequest,
    /// The ratelimit configuration, if it has the domain.
    domains: Option<Arc<Domains>>,
    /// One check per descriptor.
    pub(super) checks: Vec<DescriptorCheck>,
    is_committed: bool,
}

impl RlsRequest {
    /// Starts the checks of a validated request.
    pub(super) fn open(rls: &Arc<RlsState>, request: RateLimitRequest) -> Result<Self, BadRequest> {
        let domains = rls.domains.containing(&request.domain);
        let checks = Vec::with_capacity(request.descriptors.len());
        let mut opened = Self { rls: Arc::clone(rls), request, domains, checks, is_committed: false };
        opened.start_checks()?;
        Ok(opened)
    }

    fn start_checks(&mut self) -> Result<(), BadRequest> {
        let Self { rls, request, domains, checks, .. } = self;
        let context = CheckContext { sluice: &rls.sluice, adhoc_windows: &rls.adhoc_windows, domain: &request.domain };
        let mut found = domains.as_deref().map(|domains| match_descriptors(domains, request).into_iter());
        for (number, descriptor) in (1..).zip(&request.descriptors) {
            let found = found.as_mut().map(|found| found.next().flatten());
            checks.push(match descriptor.is_negative_hits {
                true => DescriptorCheck::refund(&context, number, descriptor)?,
                false => {
                    check_descriptor(&context, number, descriptor, found, HitMode::Spend(hits(request, descriptor)))?
                }
            });
        }
        Ok(())
    }

    /// True if no check is pending.
    pub(super) fn is_decided(&self) -> bool {
        self.checks.iter().all(DescriptorCheck::is_decided)
    }

    /// Waits for the store, if it counts a rule.
    pub(super) async fn wait_for_store(&mut self) {
        for check in &mut self.checks {
            check.wait_for_store().await;
        }
    }

    /// True if hits are still to be refunded.
    pub(super) fn has_refunds(&self) -> bool {
        self.checks.iter().any(|check| matches!(check.state, CheckState::RefundLater))
    }

    /// Refunds hits; with `peek_only`, as the request is refused for another reason, the limits are only read. A
    /// refused request never refunds anything.
    pub(super) fn give_back(&mut self, peek_only: bool) -> Result<(), BadRequest> {
        let Self { rls, request, domains, checks, .. } = self;
        let context = CheckContext { sluice: &rls.sluice, adhoc_windows: &rls.adhoc_windows, domain: &request.domain };
        let mut found = domains.as_deref().map(|domains| match_descriptors(domains, request).into_iter());
        for ((number, descriptor), check) in (1..).zip(&request.descriptors).zip(checks) {
            let found = found.as_mut().map(|found| found.next().flatten());
            if matches!(check.state, CheckState::RefundLater) {
                let hits = hits(request, descriptor);
                let hit_mode = if peek_only { HitMode::Spend(0) } else { HitMode::GiveBack(hits) };
                *check = DescriptorCheck {
                    is_refund: true,
                    ..check_descriptor(&context, number, descriptor, found, hit_mode)?
                };
            }
        }
        Ok(())
    }

    /// Finishes the request according to its response: if admitted, everything taken is kept, except for checks that
    /// timed out.
    pub(super) fn finish(mut self, response: &RlsResponse) {
        self.is_committed = response.is_admitted;
        for (check, status) in self.checks.iter().zip(&response.response.statuses) {
            check.count(&self.rls.counters, status.code());
        }
        for index in &response.timed_out {
            if let Some(check) = self.checks.get_mut(*index) {
                check.give_back();
            }
        }
    }
}

impl Drop for RlsRequest {
    fn drop(&mut self) {
        if !self.is_committed {
            self.checks.iter_mut().for_each(DescriptorCheck::give_back);
        }
    }
}

/// Starts the check of one descriptor. `matched` is its match in the ratelimit configuration, if that has the
/// domain.
fn check_descriptor(
    context: &CheckContext<'_>,
    number: usize,
    descriptor: &RateLimitDescriptor,
    matched: Option<Option<DescriptorMatch<'_>>>,
    hit_mode: HitMode,
) -> Result<DescriptorCheck, BadRequest> {
    match (&descriptor.limit, matched) {
        (Some(limit), _) => DescriptorCheck::overridden(context, number, descriptor, limit, hit_mode),
        (None, Some(Some(found))) => Ok(DescriptorCheck::configured(context, found, hit_mode)),
        (None, Some(None)) => Ok(DescriptorCheck::NO_LIMIT),
        (None, None) => Ok(DescriptorCheck::by_rules(context, descriptor, hit_mode)),
    }
}

/// The match of each descriptor in the ratelimit configuration, without limits replaced by another match.
fn match_descriptors<'d>(
    domains: &'d Domains,
    request: &RateLimitRequest,
) -> SmallVec<[Option<DescriptorMatch<'d>>; 4]> {
    let find = |descriptor: &RateLimitDescriptor| {
        if descriptor.limit.is_some() {
            return None;
        }
        let entries = descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
        domains.find(&request.domain, entries)
    };
    let mut found: SmallVec<[Option<DescriptorMatch<'d>>; 4]> = request.descriptors.iter().map(find).collect();
    if found.iter().flatten().any(|found| !found.limit.replaces.is_empty()) {
        let replaced: HashSet<&str> =
            found.iter().flatten().flat_map(|found| &found.limit.replaces).map(String::as_str).collect();
        for found in &mut found {
            let limit = found.as_ref().map(|found| found.limit);
            // Unlimited entries replace others and are never replaced.
            let counts = limit.filter(|limit| limit.kind != LimitKind::Unlimited);
            if counts.and_then(|limit| limit.name.as_deref()).is_some_and(|name| replaced.contains(name)) {
                *found = None;
            }
        }
    }
    found
}
