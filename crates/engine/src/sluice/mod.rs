//! A sluice: rules with their state, ready to decide requests.
//!
//! The rules are an immutable snapshot, replaced whole. Replacing it keeps the state of every rule that
//! goes on: a rule is the same if it has the same name and key, and a changed limit takes over what was
//! left of the old one ([`crate::Limiter::change`]).
//!
//! A request's life in here, in this order:
//! 1. **Lists.** On the allow list: let through, nothing is counted. On the deny list: refused.
//! 2. **Match.** The index finds the rules of the request and the key of each. A rule whose key the
//!    request lacks does not apply to it.
//! 3. **Bans.** A banned key is refused.
//! 4. **Decide.** All limits of all matching rules together, all or nothing.
//! 5. **Shadow.** Rules in shadow mode count what was let through, and report what they would have
//!    refused.
//! 6. **Gates.** Rules that protect the process let in what it has the strength for, the rest goes back
//!    ([`crate::gate`]).
//! 7. **Meter.** Rules that limit nothing but bandwidth pace the bytes of what was let through
//!    ([`Outcome::meters`]).
//!
//! ```
//! use sluicegate_engine::{Sluice, rule::{Attribute, Request, Rule}};
//! use std::net::Ipv4Addr;
//!
//! let mut per_ip = Rule::new("per-ip", ["2/1m".parse()?]);
//! per_ip.key = vec![Attribute::ClientIp.into()];
//! let sluice = Sluice::builder().rule(per_ip).build()?;
//!
//! let request = Request::new("GET", "/").with_client_ip(Ipv4Addr::LOCALHOST);
//! assert!(sluice.decide(&request).is_admitted());
//! assert!(sluice.decide(&request).is_admitted());
//! let refused = sluice.decide(&request);
//! assert!(!refused.is_admitted());
//! assert_eq!(refused.rule().map(|rule| rule.name.as_str()), Some("per-ip"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ban;
mod builder;
mod counts;
mod decide;
mod explain;
mod fleet;
mod gating;
mod keys;
mod meter;
mod outcome;
mod prepared;
mod queue;
mod saved;
mod snapshot;
mod top;
mod waved;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub use ban::{BanNews, Banned};
pub use builder::{RuleSetError, SluiceBuilder};
pub use counts::{ListCounts, RuleCounts, WAIT_BOUNDS, WaitTimes};
pub use explain::{Explanation, GateExplanation, RuleExplanation};
pub use keys::{KeyError, KeyState, LimitState};
pub use meter::{Meters, TakingBytes};
pub use outcome::{Cause, Outcome, RuleDecision};
pub use queue::Admission;
pub use saved::SavedRules;
pub use snapshot::{Remembered, remembered};
pub use top::{TopKey, TopKeys, TopList};
pub use waved::{Waved, Waving};

use crate::clock::ClockHandle;
use crate::fleet::FleetStore;
use crate::gate::Gate;
use crate::limit::LimitError;
use crate::rule::{Expr, Lists, Request, Rule};
use decide::{Asking, Deciding};
use snapshot::{Means, Snapshot};

/// Rules in force. Clones are the same sluice.
#[derive(Clone)]
pub struct Sluice {
    shared: Arc<Shared>,
}

struct Shared {
    snapshot: ArcSwap<Snapshot>,
    clock: ClockHandle,
    /// Bytes for the keys of all rules.
    memory: usize,
    /// Where cluster-wide rules are counted.
    store: Option<Arc<dyn FleetStore>>,
    /// The lists in force. Whoever replaces rules or lists holds it.
    replacing: Mutex<GivenLists>,
    started_fresh: Vec<String>,
    /// Rules out of force that requests may still hold, to be let go of where nobody waits for it.
    retired: Mutex<Vec<Arc<Snapshot>>>,
    /// How many threads decide at a time, if the heaviest keys are remembered.
    watching: Option<usize>,
}

/// Where the lists in force come from.
#[derive(Default)]
struct GivenLists {
    /// With the rules.
    own: Lists,
    /// From elsewhere.
    further: Lists,
}

impl GivenLists {
    fn together(&self) -> Lists {
        let Self { own, further } = self;
        let both = |own: &[Expr], further: &[Expr]| own.iter().chain(further).cloned().collect();
        Lists { allow: both(&own.allow, &further.allow), deny: both(&own.deny, &further.deny) }
    }
}

impl Sluice {
    /// Rules, lists, memory, a clock of your own.
    pub fn builder() -> SluiceBuilder {
        SluiceBuilder::default()
    }

    /// Decides about a request and takes what it costs.
    pub fn decide(&self, request: &Request<'_>) -> Outcome {
        decide::decide(self.shared.snapshot.load_full(), Deciding::Matching, request, &self.shared.clock)
    }

    /// Decides by the rule of this name alone, for programs that know which one they mean. `None`: there
    /// is no such rule.
    ///
    /// The rule's target and side do not matter, so its pattern captures nothing; its condition, key,
    /// cost, bans, mode and limits do, and so do the lists.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Request, Rule}};
    ///
    /// let sluice = Sluice::builder().rule(Rule::new("mails", ["1/1m".parse()?])).build()?;
    /// let mail = Request::new("", "");
    /// assert!(sluice.decide_named("mails", &mail).is_some_and(|outcome| outcome.is_admitted()));
    /// assert!(sluice.decide_named("mails", &mail).is_some_and(|outcome| !outcome.is_admitted()));
    /// assert!(sluice.decide_named("letters", &mail).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_named(&self, rule: &str, request: &Request<'_>) -> Option<Outcome> {
        let (snapshot, only) = self.named(rule)?;
        Some(decide::decide(snapshot, only, request, &self.shared.clock))
    }

    fn named(&self, rule: &str) -> Option<(Arc<Snapshot>, Deciding)> {
        let snapshot = self.shared.snapshot.load_full();
        let position = snapshot.position(rule)?;
        Some((snapshot, Deciding::Only(position)))
    }

    /// Names of rules whose saved state did not fit them any more when the sluice was restored; these
    /// started fresh.
    pub fn started_fresh(&self) -> &[String] {
        &self.shared.started_fresh
    }

    /// The clock it goes by.
    pub fn clock(&self) -> &ClockHandle {
        &self.shared.clock
    }

    /// Decides about a request and, where its rule says so, waits for its turn. A pause that a leaky
    /// bucket asks for is sat out too: whoever is admitted may go on at once.
    pub fn admit(&self, request: &Request<'_>) -> Admission {
        self.admission(self.shared.snapshot.load_full(), Deciding::Matching, request, Asking::ToWait)
    }

    /// [`Sluice::decide_named`], waiting where the rule says so, as [`Sluice::admit`] does.
    pub fn admit_named(&self, rule: &str, request: &Request<'_>) -> Option<Admission> {
        let (snapshot, only) = self.named(rule)?;
        Some(self.admission(snapshot, only, request, Asking::ToWait))
    }

    /// Lets requests in or refuses them without further ado where that is all there is to it: a request that meets one
    /// rule at most, that one a plain token bucket, while nobody waits and, if there is not enough in it, nobody may.
    /// Whatever is not as simple as that goes on with [`Sluice::admit`] or whatever else answers an [`Outcome`].
    ///
    /// For adapters that have no use for the outcome of such a request: it need not be made. Do not keep it longer than
    /// one request takes to be decided, as the rules cannot be let go of meanwhile.
    ///
    /// ```
    /// use sluicegate_engine::{Limit, Rate, Sluice, rule::{Attribute, Request, Rule}};
    /// use std::net::Ipv4Addr;
    ///
    /// let mut per_ip = Rule::new("per-ip", [Limit::token_bucket(Rate::per_minute(1)?, 2)?]);
    /// per_ip.key = vec![Attribute::ClientIp.into()];
    /// let sluice = Sluice::builder().rule(per_ip).build()?;
    ///
    /// let request = Request::new("GET", "/").with_client_ip(Ipv4Addr::LOCALHOST);
    /// let admitted = || sluice.waving().wave(&request).map(|waved| waved.is_admitted());
    /// assert_eq!([admitted(), admitted(), admitted()], [Some(true), Some(true), Some(false)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waving(&self) -> Waving<'_> {
        Waving::new(self.shared.snapshot.load(), &self.shared.clock)
    }

    /// [`Sluice::decide`] for servers that must not stand still: what is waited for is the store, if a rule is
    /// counted there, and nothing else. No line is stood in and no pause sat out: the verdict tells of them.
    pub fn ask(&self, request: &Request<'_>) -> Admission {
        self.admission(self.shared.snapshot.load_full(), Deciding::Matching, request, Asking::AtOnce)
    }

    /// [`Sluice::ask`] by the rule of this name alone, as [`Sluice::decide_named`].
    pub fn ask_named(&self, rule: &str, request: &Request<'_>) -> Option<Admission> {
        let (snapshot, only) = self.named(rule)?;
        Some(self.admission(snapshot, only, request, Asking::AtOnce))
    }

    fn admission(
        &self,
        snapshot: Arc<Snapshot>,
        deciding: Deciding,
        request: &Request<'_>,
        asking: Asking,
    ) -> Admission {
        Admission::new(snapshot, deciding, request, &self.shared.clock, asking)
    }

    /// Which rules match a request, with which key, and what they would decide. Takes nothing.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        explain::explain(&self.shared.snapshot.load(), request, self.shared.clock.now())
    }

    /// Puts other rules in force. On an error the present ones go on.
    pub fn replace(&self, rules: Vec<Rule>, lists: Lists) -> Result<(), RuleSetError> {
        let mut present = self.shared.replacing.lock();
        let changed = GivenLists { own: lists, further: present.further.clone() };
        self.put_in_force(rules, &changed)?;
        *present = changed;
        Ok(())
    }

    fn put_in_force(&self, rules: Vec<Rule>, lists: &GivenLists) -> Result<(), RuleSetError> {
        let old = self.shared.snapshot.load_full();
        let Shared { clock, memory, store, watching, .. } = &*self.shared;
        let means = Means { clock, memory: *memory, seed: old.seed(), store: store.as_ref(), watching: *watching };
        let new = Snapshot::build(rules, lists.together(), &means, Some(&old))?;
        let new = Arc::new(new);
        self.shared.snapshot.store(Arc::clone(&new));
        old.hand_over_meters(&new);
        self.shared.retired.lock().push(old);
        self.tidy();
        Ok(())
    }

    /// Lets go of rules that were replaced and that no request holds any more. They may be large: so it is done
    /// here, and at every replacement, and never where a request ends. Call it now and then, say every second.
    pub fn tidy(&self) {
        // Out of force, so nobody can get hold of it any more: who is alone with it stays alone.
        let is_left = |snapshot: &mut Arc<Snapshot>| Arc::strong_count(snapshot) == 1;
        let left: Vec<_> = self.shared.retired.lock().extract_if(.., is_left).collect();
        drop(left);
    }

    /// Which set of rules is in force: no other set in this process has the same number, and later ones have
    /// higher ones.
    pub fn edition(&self) -> u64 {
        self.shared.snapshot.load().edition()
    }

    /// The lists in force: those given with the rules, and those [set besides](Self::set_further_lists).
    pub fn lists(&self) -> (Lists, Lists) {
        let lists = self.shared.replacing.lock();
        (lists.own.clone(), lists.further.clone())
    }

    /// How many requests the lists have decided.
    pub fn list_counts(&self) -> ListCounts {
        self.shared.snapshot.load().list_counters().counts()
    }

    /// The keys of a rule that asked most and were refused most, in the last minute or two. `None`: there is no such
    /// rule, it has no key, or keys are not [watched](SluiceBuilder::watch_keys).
    pub fn top_keys(&self, rule: &str) -> Option<TopKeys> {
        let snapshot = self.shared.snapshot.load();
        let watch = snapshot.state(snapshot.position(rule)?).watch.as_ref()?;
        Some(watch.top(self.shared.clock.now()))
    }

    /// The rules in force.
    pub fn rules(&self) -> Vec<Rule> {
        self.shared.snapshot.load().rules().to_vec()
    }

    /// What each rule has decided so far, in the order of the rules.
    pub fn counts(&self) -> Vec<RuleCounts> {
        self.shared.snapshot.load().counts(self.shared.clock.now())
    }

    /// Bans in force that were pronounced lately, by rule.
    pub fn bans(&self) -> Vec<Banned> {
        self.shared.snapshot.load().bans(self.shared.clock.now())
    }

    /// Lifts a ban by its rule and the key as [`Sluice::bans`] shows it. Answers whether there was one.
    pub fn lift_ban(&self, rule: &str, key: &str) -> bool {
        self.shared.snapshot.load().lift_ban(rule, key)
    }

    /// Bans by cluster-wide rules that were pronounced or lifted here since this was last asked, for the
    /// other processes to [hear](Sluice::hear_ban).
    pub fn ban_news(&self) -> Vec<BanNews> {
        self.shared.snapshot.load().ban_news(false, self.shared.clock.now())
    }

    /// Bans in force by cluster-wide rules, for a store that has forgotten them.
    pub fn bans_to_tell(&self) -> Vec<BanNews> {
        self.shared.snapshot.load().ban_news(true, self.shared.clock.now())
    }

    /// Takes up a ban that another process pronounced or lifted. Answers whether there is a rule of that
    /// name that bans.
    pub fn hear_ban(&self, news: &BanNews) -> bool {
        self.shared.snapshot.load().hear_ban(news, self.shared.clock.now())
    }

    /// Sets the lists that hold besides those given with the rules, such as those a fleet shares. They
    /// come after them, and stay when rules are replaced.
    pub fn set_further_lists(&self, further: Lists) -> Result<(), RuleSetError> {
        let mut lists = self.shared.replacing.lock();
        if lists.further == further {
            return Ok(());
        }
        let rules = self.rules();
        let changed = GivenLists { own: lists.own.clone(), further };
        self.put_in_force(rules, &changed)?;
        *lists = changed;
        Ok(())
    }

    /// What counts its cluster-wide rules, if not this process.
    pub fn store(&self) -> Option<Arc<dyn FleetStore>> {
        self.shared.store.clone()
    }

    /// The same sluice, not kept alive by this.
    pub fn downgrade(&self) -> WeakSluice {
        WeakSluice(Arc::downgrade(&self.shared))
    }

    /// The rules that protect the process under strain, with their gates.
    pub fn gates(&self) -> Vec<(Rule, Gate)> {
        self.shared.snapshot.load().gates().map(|(rule, gate)| (rule.clone(), gate.clone())).collect()
    }

    /// Memory the keys of all rules take, whether used or not.
    pub fn bytes(&self) -> usize {
        self.shared.snapshot.load().bytes()
    }
}

/// A sluice that is not kept alive.
#[derive(Clone)]
pub struct WeakSluice(Weak<Shared>);

impl WeakSluice {
    /// The sluice, if somebody still keeps it.
    pub fn upgrade(&self) -> Option<Sluice> {
        self.0.upgrade().map(|shared| Sluice { shared })
    }

    /// Whether somebody still keeps it.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl std::fmt::Debug for WeakSluice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakSluice").field("is_there", &self.is_there()).finish()
    }
}

impl std::fmt::Debug for Sluice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let snapshot = self.shared.snapshot.load();
        let names: Vec<&str> = snapshot.rules().iter().map(|rule| rule.name.as_str()).collect();
        f.debug_struct("Sluice").field("rules", &names).finish_non_exhaustive()
    }
}

/// A limit that a rule cannot have, with the rule's name.
fn in_rule(rule: &Rule) -> impl FnOnce(LimitError) -> RuleSetError + '_ {
    |source| RuleSetError::Limit { rule: rule.name.clone(), source }
}
