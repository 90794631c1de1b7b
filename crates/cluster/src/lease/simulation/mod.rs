//! Simulation of a whole cluster in virtual time: nodes, a store and faults between them.
//!
//! Seeded, single-threaded, and in whole microseconds, so that a failure can be reproduced and the bound
//! can be checked without tolerance. It tests the real [`LeaseHolder`] and the real [`LeaseModel`].

mod faults;
mod utilisation;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_testkit::bound::AdmissionEvent;
use sluicegate_testkit::random::SplitMix64;

use super::message::{LeaseReply, LeaseRequest, NodeId};
use super::model::LeaseModel;
use super::node::{Effects, EnqueueResult, LeaseHolder, LeaseOutcome, LeaseReceipt, Waiter};
use super::params::LeaseParams;

/// Microseconds after which a request counts as lost.
const DEADLINE: u64 = 20_000;
const TICK: u64 = 50_000;

/// A waiting caller with its cost. Some give up.
struct Caller {
    cost: u64,
    cancelled: bool,
}

impl Waiter for Caller {
    fn is_cancelled(&self) -> bool {
        self.cancelled
    }
}

/// Fault probabilities in thousandths.
#[derive(Clone, Copy, Debug, Default)]
struct FaultRates {
    request_lost: u64,
    reply_lost: u64,
    duplicated: u64,
    /// Delayed by up to three seconds.
    delayed: u64,
    /// Per second and node.
    crash: u64,
    evict: u64,
    pause: u64,
    /// Network partition between the node and the store.
    partition: u64,
    /// Callers that return their tokens, and callers that give up waiting.
    returned: u64,
    cancelled: u64,
    /// Total store losses: it restarts empty, or from a replica.
    losses: u32,
    /// Maximum rate error of the nodes' clocks, in millionths.
    drift: u64,
}

enum SimEvent {
    Arrive(usize),
    Request(Rc<Envelope>),
    Reply { envelope: Rc<Envelope>, reply: Box<LeaseReply>, processed: u64 },
    Deadline(Rc<Envelope>),
    ReturnTokens { node: usize, receipt: LeaseReceipt },
    Tick(usize),
    Fault,
    Copy,
    Loss,
}

/// An event and its time; events at one time happen in scheduling order.
struct ScheduledEvent {
    at: u64,
    index: u64,
    event: SimEvent,
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.index).cmp(&(self.at, self.index))
    }
}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Eq for ScheduledEvent {}

/// A request with its sender.
struct Envelope {
    node: usize,
    request: LeaseRequest,
}

struct SimNode {
    id: NodeId,
    /// Incremented whenever the node restarts.
    epoch: u64,
    holder: LeaseHolder<Caller>,
    paused_until: u64,
    partitioned_until: u64,
    /// Time at which the store made the last reply that the node accepted.
    last_reply_at: u64,
    /// The local clock: its offset, and its rate error in millionths.
    offset: u64,
    drift: i64,
    /// Mean microseconds between callers; zero for none.
    mean_gap: f64,
}

/// The simulated cluster.
struct Simulation {
    params: LeaseParams,
    faults: FaultRates,
    rng: SplitMix64,
    /// Microseconds.
    now: u64,
    end: u64,
    events: BinaryHeap<ScheduledEvent>,
    scheduled: u64,
    nodes: Vec<SimNode>,
    model: LeaseModel,
    copy: LeaseModel,
    losses: u32,
    last_loss: u64,
    /// One-way latency, minimum and maximum.
    latency: (u64, u64),
    max_cost: u64,
    /// Arrival times of callers.
    offered: Vec<u64>,
    admitted: Vec<AdmissionEvent>,
    refused: u64,
    requests: u64,
}

impl Simulation {
    fn new(params: &LeaseParams, seed: u64, nodes: usize, seconds: f64, faults: FaultRates) -> Self {
        let mut rng = SplitMix64::new(seed);
        let end = (seconds * 1e6) as u64;
        let nodes = (0..nodes).map(|at| {
            let id = NodeId(u128::from(rng.bits()) << 64 | at as u128);
            let drift = rng.below(2 * faults.drift + 1) as i64 - faults.drift as i64;
            let offset = rng.below(1 << 40);
            let holder = LeaseHolder::new(params, id, 1, Timestamp::ZERO);
            SimNode {
                id,
                epoch: 1,
                holder,
                paused_until: 0,
                partitioned_until: 0,
                last_reply_at: 0,
                offset,
                drift,
                mean_gap: 0.0,
            }
        });
        let nodes = nodes.collect();
        let mut simulation = Self {
            params: params.clone(),
            faults,
            rng,
            // The store's clock: whole microseconds since 1970.
            now: 1_800_000_000_000_000,
            end: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            nodes,
            model: LeaseModel::new(params),
            copy: LeaseModel::new(params),
            losses: 0,
            last_loss: 0,
            latency: (50, 500),
            max_cost: 1,
            offered: Vec::new(),
            admitted: Vec::new(),
            refused: 0,
            requests: 0,
        };
        simulation.end = simulation.now + end;
        for node in 0..simulation.nodes.len() {
            let tick = simulation.rng.below(TICK);
            simulation.schedule(tick, SimEvent::Tick(node));
        }
        for _ in 0..faults.losses {
            let at = simulation.rng.below(end / 2);
            let age = simulation.rng.below(2_000_000);
            simulation.schedule(at.saturating_sub(age), SimEvent::Copy);
            simulation.schedule(at, SimEvent::Loss);
        }
        simulation.schedule(10_000, SimEvent::Fault);
        simulation
    }

    fn schedule(&mut self, after: u64, event: SimEvent) {
        self.events.push(ScheduledEvent { at: self.now + after, index: self.scheduled, event });
        self.scheduled += 1;
    }

    /// Sets the callers per second of a node from now on.
    fn set_load(&mut self, node: usize, per_second: f64) {
        let idle = self.nodes[node].mean_gap == 0.0;
        self.nodes[node].mean_gap = if per_second > 0.0 { 1e6 / per_second } else { 0.0 };
        if idle && per_second > 0.0 {
            self.schedule(0, SimEvent::Arrive(node));
        }
    }

    /// Runs all events until `until` microseconds.
    fn run_to(&mut self, until: u64) {
        while self.events.peek().is_some_and(|next| next.at < until.min(self.end))
            && let Some(ScheduledEvent { at, event, .. }) = self.events.pop()
        {
            self.now = at;
            self.handle(event);
        }
        self.now = until.min(self.end);
    }

    fn handle(&mut self, event: SimEvent) {
        let target = match &event {
            SimEvent::Arrive(node) | SimEvent::Tick(node) | SimEvent::ReturnTokens { node, .. } => *node,
            SimEvent::Reply { envelope, .. } | SimEvent::Deadline(envelope) => envelope.node,
            _ => usize::MAX,
        };
        if let Some(node) = self.nodes.get(target)
            && node.paused_until > self.now
        {
            return self.schedule(node.paused_until - self.now, event);
        }
        match event {
            SimEvent::Arrive(node) => self.arrive(node),
            SimEvent::Request(envelope) => self.deliver_request(envelope),
            SimEvent::Reply { envelope, reply, processed } => self.deliver_reply(&envelope, &reply, processed),
            SimEvent::Deadline(envelope) => {
                let now = self.local_time(envelope.node);
                let effects = self.nodes[envelope.node].holder.on_failure(&envelope.request.account, now);
                self.apply_effects(envelope.node, effects, 0);
            }
            SimEvent::ReturnTokens { node, receipt } => {
                let now = self.local_time(node);
                self.nodes[node].holder.return_tokens(receipt, now);
            }
            SimEvent::Tick(node) => {
                let now = self.local_time(node);
                if let Some(request) = self.nodes[node].holder.tick(now) {
                    self.send(node, request);
                }
                self.schedule(TICK, SimEvent::Tick(node));
            }
            SimEvent::Fault => self.inject_fault(),
            SimEvent::Copy => self.copy = self.model.clone(),
            SimEvent::Loss => self.lose_store(),
        }
    }

    /// The time on a node's clock.
    fn local_time(&self, node: usize) -> Timestamp {
        let node = &self.nodes[node];
        let since = (self.now - 1_800_000_000_000_000) as i128 * 1_000;
        let drifted = since + since * i128::from(node.drift) / 1_000_000;
        Timestamp::from_nanos(node.offset + drifted as u64)
    }

    fn arrive(&mut self, node: usize) {
        let gap = self.nodes[node].mean_gap;
        if gap > 0.0 {
            // Microseconds are whole: closer callers share one.
            let wait = self.rng.exponential() * gap;
            let round_up = self.rng.unit() < wait.fract();
            self.schedule(wait as u64 + u64::from(round_up), SimEvent::Arrive(node));
        }
        self.offered.push(self.now);
        let cost = 1 + self.rng.below(self.max_cost);
        let now = self.local_time(node);
        let account = self.nodes[node].holder.account();
        if let Some((receipt, request)) = self.nodes[node].holder.take(cost, now) {
            // The core of the proof: a token is outstanding while a node spends it.
            let is_known = self.losses == 0 || self.nodes[node].last_reply_at > self.last_loss;
            assert!(
                !is_known || self.model.covers(self.now, &account),
                "{account:?} at {}: {:?}",
                self.now,
                self.model
            );
            if self.rng.happens(self.faults.returned) {
                let after = self.rng.below(100_000);
                self.schedule(after, SimEvent::ReturnTokens { node, receipt });
            } else {
                self.admit(self.now, cost);
            }
            if let Some(request) = request {
                self.send(node, request);
            }
            return;
        }
        let cancelled = self.rng.happens(self.faults.cancelled);
        match self.nodes[node].holder.enqueue(cost, now, || Caller { cost, cancelled }) {
            EnqueueResult::Send(request) => self.send(node, request),
            EnqueueResult::Queued => {}
            EnqueueResult::NotBefore(_) | EnqueueResult::Full => self.refused += 1,
        }
    }

    fn admit(&mut self, at: u64, cost: u64) {
        self.admitted.push(AdmissionEvent { at: at * 1_000, cost });
    }

    fn latency(&mut self) -> u64 {
        let (min, max) = self.latency;
        let delay = min + self.rng.below(max - min + 1);
        if self.rng.happens(self.faults.delayed) { delay + self.rng.below(3_000_000) } else { delay }
    }

    fn send(&mut self, node: usize, request: LeaseRequest) {
        self.requests += 1;
        let envelope = Rc::new(Envelope { node, request });
        self.schedule(DEADLINE, SimEvent::Deadline(Rc::clone(&envelope)));
        if self.rng.happens(self.faults.duplicated) {
            let delay = self.latency();
            self.schedule(delay, SimEvent::Request(Rc::clone(&envelope)));
        }
        if !self.rng.happens(self.faults.request_lost) {
            let delay = self.latency();
            self.schedule(delay, SimEvent::Request(envelope));
        }
    }

    fn deliver_request(&mut self, envelope: Rc<Envelope>) {
        if self.nodes[envelope.node].partitioned_until > self.now {
            return;
        }
        // Redis expires keys that are full again, sometimes a little late.
        if self.model.full_at(&self.params) <= self.now && self.rng.happens(500) {
            self.model = LeaseModel::new(&self.params);
        }
        let reply = Box::new(self.model.apply(&self.params, self.now, &envelope.request));
        if !self.rng.happens(self.faults.reply_lost) {
            let delay = self.latency();
            self.schedule(delay, SimEvent::Reply { envelope, reply, processed: self.now });
        }
    }

    fn deliver_reply(&mut self, envelope: &Envelope, reply: &LeaseReply, processed: u64) {
        let node = envelope.node;
        let now = self.local_time(node);
        let (holder, account) = (&mut self.nodes[node].holder, &envelope.request.account);
        let current = holder.account();
        let same = (current.epoch, current.sequence) == (account.epoch, account.sequence);
        let is_applied = same && !holder.is_evictable();
        let effects = holder.on_reply(&self.params, account, reply, now);
        if is_applied && *reply != LeaseReply::Stale {
            self.nodes[node].last_reply_at = processed;
        }
        self.apply_effects(node, effects, processed);
    }

    /// Callers served by the store were admitted at its time; callers served by the slice, now.
    fn apply_effects(&mut self, node: usize, effects: Effects<Caller>, processed: u64) {
        for (caller, outcome) in effects.notify {
            match outcome {
                LeaseOutcome::Acquired(receipt) if receipt.token()[1] > 0 => self.admit(self.now, caller.cost),
                LeaseOutcome::Acquired(_) => self.admit(processed, caller.cost),
                LeaseOutcome::NotBefore(_) | LeaseOutcome::Failed => self.refused += 1,
            }
        }
        if let Some(request) = effects.request {
            self.send(node, request);
        }
    }

    fn inject_fault(&mut self) {
        self.schedule(10_000, SimEvent::Fault);
        let node = self.rng.below(self.nodes.len() as u64) as usize;
        let percent = |per_second: u64| per_second / 10;
        if self.rng.happens(percent(self.faults.crash)) {
            self.nodes[node].id = NodeId(u128::from(self.rng.bits()) << 64 | node as u128);
            self.restart(node);
        } else if self.rng.happens(percent(self.faults.evict)) {
            // The holder is evicted: it returns its slice, and its successor knows nothing of it.
            let now = self.local_time(node);
            let effects = self.nodes[node].holder.close(now);
            self.apply_effects(node, effects, 0);
            self.restart(node);
        } else if self.rng.happens(percent(self.faults.pause)) {
            self.nodes[node].paused_until = self.now + self.rng.below(5_000_000);
        } else if self.rng.happens(percent(self.faults.partition)) {
            self.nodes[node].partitioned_until = self.now + self.rng.below(5_000_000);
        }
    }

    fn restart(&mut self, at: usize) {
        let now = self.local_time(at);
        let node = &mut self.nodes[at];
        node.epoch += 1;
        node.holder = LeaseHolder::new(&self.params, node.id, node.epoch, now);
    }

    fn lose_store(&mut self) {
        self.losses += 1;
        self.last_loss = self.now;
        self.model = if self.rng.happens(500) { LeaseModel::new(&self.params) } else { self.copy.clone() };
    }
}
