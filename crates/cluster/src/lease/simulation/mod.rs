//! A whole fleet in virtual time: nodes, a store and everything that can go wrong between them.
//!
//! Seeded, single-threaded, and in whole microseconds, so that a failure can be repeated and the bound
//! can be checked without tolerance. What is under test are the real [`Holder`] and the real [`Ledger`].

mod faults;
mod utilisation;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use super::chance::Chance;
use sluicegate_engine::Timestamp;
use sluicegate_testkit::bound::Admitted;

use super::holder::{Asked, Effects, Holder, Outcome, Slip, Waiter};
use super::ledger::Ledger;
use super::message::{LeaseReply, LeaseRequest, NodeId};
use super::terms::Leasable;

/// After so many microseconds a request counts as lost.
const DEADLINE: u64 = 20_000;
const TICK: u64 = 50_000;

/// A caller that waits: its cost. Some give up.
struct Caller {
    cost: u64,
    gone: bool,
}

impl Waiter for Caller {
    fn is_gone(&self) -> bool {
        self.gone
    }
}

/// How likely things go wrong, each out of a thousand.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    request_lost: u64,
    answer_lost: u64,
    duplicated: u64,
    /// Takes up to three seconds.
    delayed: u64,
    /// Per second and node.
    crash: u64,
    evict: u64,
    pause: u64,
    /// Nothing passes between the node and the store.
    cut_off: u64,
    /// Callers that put back what they took, and those who give up waiting.
    given_back: u64,
    gone: u64,
    /// Losses of the store in all: it starts empty, or from a copy.
    losses: u32,
    /// How wrong the rates of the nodes' clocks are, in millionths.
    drift: u64,
}

enum Event {
    Arrive(usize),
    Request(Rc<Envelope>),
    Reply { envelope: Rc<Envelope>, reply: Box<LeaseReply>, processed: u64 },
    Deadline(Rc<Envelope>),
    GiveBack { node: usize, slip: Slip },
    Tick(usize),
    Mishap,
    Copy,
    Loss,
}

/// An event and its time; of those at one time, first scheduled, first happened.
struct Scheduled {
    at: u64,
    number: u64,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

/// A request with its sender.
struct Envelope {
    node: usize,
    request: LeaseRequest,
}

struct Node {
    id: NodeId,
    /// Rises whenever the node starts anew.
    epoch: u64,
    holder: Holder<Caller>,
    paused_until: u64,
    cut_off_until: u64,
    /// When the store made the last answer that the node heeded.
    heard: u64,
    /// The local clock: so much ahead, and so many millionths faster.
    offset: u64,
    drift: i64,
    /// Mean microseconds between callers; none come if it is zero.
    gap: f64,
}

/// The fleet.
struct World {
    terms: Leasable,
    faults: Faults,
    chance: Chance,
    /// Microseconds.
    now: u64,
    end: u64,
    events: BinaryHeap<Scheduled>,
    scheduled: u64,
    nodes: Vec<Node>,
    ledger: Ledger,
    copy: Ledger,
    losses: u32,
    last_loss: u64,
    /// One way, shortest and longest.
    latency: (u64, u64),
    largest_cost: u64,
    /// When callers came.
    offered: Vec<u64>,
    admitted: Vec<Admitted>,
    refused: u64,
    requests: u64,
}

impl World {
    fn new(terms: &Leasable, seed: u64, nodes: usize, seconds: f64, faults: Faults) -> Self {
        let mut chance = Chance::new(seed);
        let end = (seconds * 1e6) as u64;
        let nodes = (0..nodes).map(|at| {
            let id = NodeId(u128::from(chance.next()) << 64 | at as u128);
            let drift = chance.below(2 * faults.drift + 1) as i64 - faults.drift as i64;
            let offset = chance.below(1 << 40);
            let holder = Holder::new(terms, id, 1, Timestamp::ZERO);
            Node { id, epoch: 1, holder, paused_until: 0, cut_off_until: 0, heard: 0, offset, drift, gap: 0.0 }
        });
        let nodes = nodes.collect();
        let mut world = Self {
            terms: terms.clone(),
            faults,
            chance,
            // The store's clock: whole microseconds since 1970.
            now: 1_800_000_000_000_000,
            end: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            nodes,
            ledger: Ledger::new(terms),
            copy: Ledger::new(terms),
            losses: 0,
            last_loss: 0,
            latency: (50, 500),
            largest_cost: 1,
            offered: Vec::new(),
            admitted: Vec::new(),
            refused: 0,
            requests: 0,
        };
        world.end = world.now + end;
        for node in 0..world.nodes.len() {
            let tick = world.chance.below(TICK);
            world.schedule(tick, Event::Tick(node));
        }
        for _ in 0..faults.losses {
            let at = world.chance.below(end / 2);
            let age = world.chance.below(2_000_000);
            world.schedule(at.saturating_sub(age), Event::Copy);
            world.schedule(at, Event::Loss);
        }
        world.schedule(10_000, Event::Mishap);
        world
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.events.push(Scheduled { at: self.now + after, number: self.scheduled, event });
        self.scheduled += 1;
    }

    /// Callers come to a node so many times a second from now on.
    fn load(&mut self, node: usize, per_second: f64) {
        let idle = self.nodes[node].gap == 0.0;
        self.nodes[node].gap = if per_second > 0.0 { 1e6 / per_second } else { 0.0 };
        if idle && per_second > 0.0 {
            self.schedule(0, Event::Arrive(node));
        }
    }

    /// Lets everything happen until `until` microseconds from the start.
    fn run_to(&mut self, until: u64) {
        while self.events.peek().is_some_and(|next| next.at < until.min(self.end))
            && let Some(Scheduled { at, event, .. }) = self.events.pop()
        {
            self.now = at;
            self.happen(event);
        }
        self.now = until.min(self.end);
    }

    fn happen(&mut self, event: Event) {
        let asleep = match &event {
            Event::Arrive(node) | Event::Tick(node) | Event::GiveBack { node, .. } => *node,
            Event::Reply { envelope, .. } | Event::Deadline(envelope) => envelope.node,
            _ => usize::MAX,
        };
        if let Some(node) = self.nodes.get(asleep)
            && node.paused_until > self.now
        {
            return self.schedule(node.paused_until - self.now, event);
        }
        match event {
            Event::Arrive(node) => self.arrive(node),
            Event::Request(envelope) => self.reach_store(envelope),
            Event::Reply { envelope, reply, processed } => self.reach_node(&envelope, &reply, processed),
            Event::Deadline(envelope) => {
                let now = self.local(envelope.node);
                let effects = self.nodes[envelope.node].holder.failed(&envelope.request.account, now);
                self.carry_out(envelope.node, effects, 0);
            }
            Event::GiveBack { node, slip } => {
                let now = self.local(node);
                self.nodes[node].holder.give_back(slip, now);
            }
            Event::Tick(node) => {
                let now = self.local(node);
                if let Some(request) = self.nodes[node].holder.tick(now) {
                    self.send(node, request);
                }
                self.schedule(TICK, Event::Tick(node));
            }
            Event::Mishap => self.mishap(),
            Event::Copy => self.copy = self.ledger.clone(),
            Event::Loss => self.lose_store(),
        }
    }

    /// The time as a node's clock shows it.
    fn local(&self, node: usize) -> Timestamp {
        let node = &self.nodes[node];
        let since = (self.now - 1_800_000_000_000_000) as i128 * 1_000;
        let drifted = since + since * i128::from(node.drift) / 1_000_000;
        Timestamp::from_nanos(node.offset + drifted as u64)
    }

    fn arrive(&mut self, node: usize) {
        let gap = self.nodes[node].gap;
        if gap > 0.0 {
            // Microseconds are whole: several callers come in one where they are shorter apart.
            let wait = self.chance.exponential() * gap;
            let round_up = self.chance.unit() < wait.fract();
            self.schedule(wait as u64 + u64::from(round_up), Event::Arrive(node));
        }
        self.offered.push(self.now);
        let cost = 1 + self.chance.below(self.largest_cost);
        let now = self.local(node);
        let account = self.nodes[node].holder.account();
        if let Some((slip, request)) = self.nodes[node].holder.take(cost, now) {
            // The heart of the proof: whatever a node spends is out while it spends it.
            let knows = self.losses == 0 || self.nodes[node].heard > self.last_loss;
            assert!(!knows || self.ledger.covers(self.now, &account), "{account:?} at {}: {:?}", self.now, self.ledger);
            if self.chance.happens(self.faults.given_back) {
                let after = self.chance.below(100_000);
                self.schedule(after, Event::GiveBack { node, slip });
            } else {
                self.admit(self.now, cost);
            }
            if let Some(request) = request {
                self.send(node, request);
            }
            return;
        }
        let gone = self.chance.happens(self.faults.gone);
        match self.nodes[node].holder.ask(cost, now, || Caller { cost, gone }) {
            Asked::Send(request) => self.send(node, request),
            Asked::Waits => {}
            Asked::NotBefore(_) | Asked::Crowded => self.refused += 1,
        }
    }

    fn admit(&mut self, at: u64, cost: u64) {
        self.admitted.push(Admitted { at: at * 1_000, cost });
    }

    fn latency(&mut self) -> u64 {
        let (shortest, longest) = self.latency;
        let delay = shortest + self.chance.below(longest - shortest + 1);
        if self.chance.happens(self.faults.delayed) { delay + self.chance.below(3_000_000) } else { delay }
    }

    fn send(&mut self, node: usize, request: LeaseRequest) {
        self.requests += 1;
        let envelope = Rc::new(Envelope { node, request });
        self.schedule(DEADLINE, Event::Deadline(Rc::clone(&envelope)));
        if self.chance.happens(self.faults.duplicated) {
            let delay = self.latency();
            self.schedule(delay, Event::Request(Rc::clone(&envelope)));
        }
        if !self.chance.happens(self.faults.request_lost) {
            let delay = self.latency();
            self.schedule(delay, Event::Request(envelope));
        }
    }

    fn reach_store(&mut self, envelope: Rc<Envelope>) {
        if self.nodes[envelope.node].cut_off_until > self.now {
            return;
        }
        // Redis removes keys that are full again, sometimes a little late.
        if self.ledger.full_at(&self.terms) <= self.now && self.chance.happens(500) {
            self.ledger = Ledger::new(&self.terms);
        }
        let reply = Box::new(self.ledger.apply(&self.terms, self.now, &envelope.request));
        if !self.chance.happens(self.faults.answer_lost) {
            let delay = self.latency();
            self.schedule(delay, Event::Reply { envelope, reply, processed: self.now });
        }
    }

    fn reach_node(&mut self, envelope: &Envelope, reply: &LeaseReply, processed: u64) {
        let node = envelope.node;
        let now = self.local(node);
        let (holder, account) = (&mut self.nodes[node].holder, &envelope.request.account);
        let current = holder.account();
        let same = (current.epoch, current.sequence) == (account.epoch, account.sequence);
        let heeded = same && !holder.is_alone();
        let effects = holder.answered(&self.terms, account, reply, now);
        if heeded && *reply != LeaseReply::Stale {
            self.nodes[node].heard = processed;
        }
        self.carry_out(node, effects, processed);
    }

    /// Whom the store itself served was admitted when it did; whom the slice served, now.
    fn carry_out(&mut self, node: usize, effects: Effects<Caller>, processed: u64) {
        for (caller, outcome) in effects.told {
            match outcome {
                Outcome::Taken(slip) if slip.mark()[1] > 0 => self.admit(self.now, caller.cost),
                Outcome::Taken(_) => self.admit(processed, caller.cost),
                Outcome::NotBefore(_) | Outcome::Failed => self.refused += 1,
            }
        }
        if let Some(request) = effects.request {
            self.send(node, request);
        }
    }

    fn mishap(&mut self) {
        self.schedule(10_000, Event::Mishap);
        let node = self.chance.below(self.nodes.len() as u64) as usize;
        let percent = |per_second: u64| per_second / 10;
        if self.chance.happens(percent(self.faults.crash)) {
            self.nodes[node].id = NodeId(u128::from(self.chance.next()) << 64 | node as u128);
            self.restart(node);
        } else if self.chance.happens(percent(self.faults.evict)) {
            // The holder makes room: it says goodbye, and a later one knows nothing of it.
            let now = self.local(node);
            let effects = self.nodes[node].holder.close(now);
            self.carry_out(node, effects, 0);
            self.restart(node);
        } else if self.chance.happens(percent(self.faults.pause)) {
            self.nodes[node].paused_until = self.now + self.chance.below(5_000_000);
        } else if self.chance.happens(percent(self.faults.cut_off)) {
            self.nodes[node].cut_off_until = self.now + self.chance.below(5_000_000);
        }
    }

    fn restart(&mut self, at: usize) {
        let now = self.local(at);
        let node = &mut self.nodes[at];
        node.epoch += 1;
        node.holder = Holder::new(&self.terms, node.id, node.epoch, now);
    }

    fn lose_store(&mut self) {
        self.losses += 1;
        self.last_loss = self.now;
        self.ledger = if self.chance.happens(500) { Ledger::new(&self.terms) } else { self.copy.clone() };
    }
}
