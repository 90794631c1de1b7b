//! A request and all its claims: asked together, admitted or given back together.

use std::collections::HashSet;
use std::sync::Arc;

use sluicegate_config::ratelimit::{Domains, Kind, Match};
use smallvec::SmallVec;

use super::Shared;
use super::answer::Answer;
use super::bad_request::BadRequest;
use super::claim::{Asked, Claim, Purpose, State};
use super::proto::{RateLimitDescriptor, RateLimitRequest};
use super::question::hits;

/// A request that is being decided. Dropped before its [end](Case::end), it is as if it had never been: all that
/// was taken goes back.
pub(super) struct Case {
    pub(super) rls: Arc<Shared>,
    pub(super) request: RateLimitRequest,
    /// The reference's files, if they have the domain.
    domains: Option<Arc<Domains>>,
    /// One for each descriptor.
    pub(super) claims: Vec<Claim>,
    kept: bool,
}

impl Case {
    /// Asks about a checked request.
    pub(super) fn open(rls: &Arc<Shared>, request: RateLimitRequest) -> Result<Self, BadRequest> {
        let domains = rls.domains.with(&request.domain);
        let claims = Vec::with_capacity(request.descriptors.len());
        let mut case = Self { rls: Arc::clone(rls), request, domains, claims, kept: false };
        case.claim()?;
        Ok(case)
    }

    fn claim(&mut self) -> Result<(), BadRequest> {
        let Self { rls, request, domains, claims, .. } = self;
        let asked = Asked { sluice: &rls.sluice, windows: &rls.windows, domain: &request.domain };
        let mut found = domains.as_deref().map(|domains| matches(domains, request).into_iter());
        for (nth, descriptor) in (1..).zip(&request.descriptors) {
            let found = found.as_mut().map(|found| found.next().flatten());
            claims.push(match descriptor.is_negative_hits {
                true => Claim::returning(&asked, nth, descriptor)?,
                false => one(&asked, nth, descriptor, found, Purpose::Spend(hits(request, descriptor)))?,
            });
        }
        Ok(())
    }

    /// Whether there is nothing more to wait for.
    pub(super) fn is_settled(&self) -> bool {
        self.claims.iter().all(Claim::is_settled)
    }

    /// Waits for the store, where rules are counted there.
    pub(super) async fn settle(&mut self) {
        for claim in &mut self.claims {
            claim.settle().await;
        }
    }

    /// Whether hits are still to be given back.
    pub(super) fn has_returns(&self) -> bool {
        self.claims.iter().any(|claim| matches!(claim.state, State::Returns))
    }

    /// Gives back the hits that are to be given back; `only_look` if the request is refused for another reason. By now
    /// nothing refuses any more: what is given back is never given by a refused request.
    pub(super) fn give_back(&mut self, only_look: bool) -> Result<(), BadRequest> {
        let Self { rls, request, domains, claims, .. } = self;
        let asked = Asked { sluice: &rls.sluice, windows: &rls.windows, domain: &request.domain };
        let mut found = domains.as_deref().map(|domains| matches(domains, request).into_iter());
        for ((nth, descriptor), claim) in (1..).zip(&request.descriptors).zip(claims) {
            let found = found.as_mut().map(|found| found.next().flatten());
            if matches!(claim.state, State::Returns) {
                let hits = hits(request, descriptor);
                let purpose = if only_look { Purpose::Spend(0) } else { Purpose::GiveBack(hits) };
                *claim = Claim { returns: true, ..one(&asked, nth, descriptor, found, purpose)? };
            }
        }
        Ok(())
    }

    /// Ends it as it was answered: if the request is admitted, what was taken stays taken, but for the claims
    /// that were late.
    pub(super) fn end(mut self, answer: &Answer) {
        self.kept = answer.is_admitted;
        for (claim, status) in self.claims.iter().zip(&answer.response.statuses) {
            claim.count(&self.rls.tally, status.code());
        }
        for index in &answer.late {
            if let Some(claim) = self.claims.get_mut(*index) {
                claim.give_back();
            }
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if !self.kept {
            self.claims.iter_mut().for_each(Claim::give_back);
        }
    }
}

/// Asks about one descriptor. `found` is what the reference's files have for it, if the domain is theirs.
fn one(
    asked: &Asked<'_>,
    nth: usize,
    descriptor: &RateLimitDescriptor,
    found: Option<Option<Match<'_>>>,
    purpose: Purpose,
) -> Result<Claim, BadRequest> {
    match (&descriptor.limit, found) {
        (Some(limit), _) => Claim::overridden(asked, nth, descriptor, limit, purpose),
        (None, Some(Some(found))) => Ok(Claim::configured(asked, found, purpose)),
        (None, Some(None)) => Ok(Claim::FREE),
        (None, None) => Ok(Claim::by_rules(asked, descriptor, purpose)),
    }
}

/// What the reference's files have for each descriptor, but for limits that another one's limit replaces.
fn matches<'d>(domains: &'d Domains, request: &RateLimitRequest) -> SmallVec<[Option<Match<'d>>; 4]> {
    let find = |descriptor: &RateLimitDescriptor| {
        if descriptor.limit.is_some() {
            return None;
        }
        let entries = descriptor.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
        domains.find(&request.domain, entries)
    };
    let mut found: SmallVec<[Option<Match<'d>>; 4]> = request.descriptors.iter().map(find).collect();
    if found.iter().flatten().any(|found| !found.limit.replaces.is_empty()) {
        let replaced: HashSet<&str> =
            found.iter().flatten().flat_map(|found| &found.limit.replaces).map(String::as_str).collect();
        for found in &mut found {
            let limit = found.as_ref().map(|found| found.limit);
            // What lets everything through replaces, and is not replaced.
            let counts = limit.filter(|limit| limit.kind != Kind::Unlimited);
            if counts.and_then(|limit| limit.name.as_deref()).is_some_and(|name| replaced.contains(name)) {
                *found = None;
            }
        }
    }
    found
}
