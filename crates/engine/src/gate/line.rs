//! Those who wait for a place: by class, for a short time, the newest first once a line stands.
//!
//! A short line evens out arrivals that come in lumps. A line that never empties does not: it only adds its length to
//! everybody's time, and those at its head have waited longest for nothing. So while a line has been served down to
//! the last lately, it is first in, first out, and whoever waits may do so for as long as the gate's patience lasts.
//! Once it has stood for a while, the newest goes first, and who has waited longer than a short target is sent away at
//! the next chance.
//!
//! Classes come before all of that: a place goes to the highest class that waits, and a full line makes room for a
//! higher class by sending away one of the lowest. Each class has a line of its own, so that it is the lowest classes'
//! lines that stand when there is too much of everything. The highest class's never counts as standing: the newest
//! first is right where some must be sent away anyway, and of the highest class none should be.

use std::collections::VecDeque;
use std::time::Duration;

use super::meter::{CLASSES, place};
use crate::rule::Priority;
use crate::time::Timestamp;

/// For how long a line must not have emptied to be one that stands.
const STANDS_AFTER: Duration = Duration::from_millis(100);

/// Somebody who waits.
struct Waiting<T> {
    ticket: u64,
    since: Timestamp,
    /// As long as the patience lasted when it came: what is ordered later does not shorten a wait that has begun.
    until: Timestamp,
    who: T,
}

/// How long and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest that anybody waits who comes while this holds.
    pub patience: Duration,
    /// The longest that anybody but the highest class waits while the line stands. Not less than the patience: it does
    /// not matter whether it stands, and it stays first in, first out.
    pub target: Duration,
    /// The most that wait.
    pub most: usize,
}

/// The line.
pub(super) struct Line<T> {
    classes: [ClassLine<T>; CLASSES],
    next_ticket: u64,
}

/// The line of one class.
struct ClassLine<T> {
    waiting: VecDeque<Waiting<T>>,
    /// When nobody of the class waited, lately, and not because they were sent away.
    empty_at: Timestamp,
    /// When the last one was sent away for being late.
    sent_away_at: Timestamp,
}

impl<T> ClassLine<T> {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), empty_at: Timestamp::ZERO, sent_away_at: Timestamp::ZERO }
    }

    fn stands(&self, now: Timestamp, bounds: &Bounds) -> bool {
        let matters = bounds.target < bounds.patience;
        matters && !self.waiting.is_empty() && now - self.empty_at >= STANDS_AFTER
    }

    fn join(&mut self, now: Timestamp, newcomer: Waiting<T>) {
        // A line that is empty because everybody was sent away a moment ago still stands.
        if self.waiting.is_empty() && now - self.sent_away_at >= STANDS_AFTER {
            self.empty_at = now;
        }
        self.waiting.push_back(newcomer);
    }
}

/// What became of somebody who came to wait.
pub(super) enum Joined<T> {
    /// Waits; whoever had to make room is told.
    Waits { ticket: u64, sent_away: Option<T> },
    /// There is no room.
    Full(T),
}

impl<T> Line<T> {
    pub(super) fn new() -> Self {
        Self { classes: [const { ClassLine::new() }; CLASSES], next_ticket: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.classes.iter().map(|class| class.waiting.len()).sum()
    }

    /// Whether anybody of this class or a higher one waits.
    pub(super) fn is_before(&self, class: Priority) -> bool {
        self.classes[place(class)..].iter().any(|class| !class.waiting.is_empty())
    }

    pub(super) fn join(&mut self, now: Timestamp, class: Priority, bounds: &Bounds, who: T) -> Joined<T> {
        let class = place(class);
        let mut sent_away = None;
        if self.len() >= bounds.most {
            let mut lower = self.classes[..class].iter_mut();
            // Of the lowest class, the one who has waited longest: it is the likeliest to be in vain.
            match lower.find_map(|class| class.waiting.pop_front()) {
                Some(waiting) => sent_away = Some(waiting.who),
                None => return Joined::Full(who),
            }
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.classes[class].join(now, Waiting { ticket, since: now, until: now + bounds.patience, who });
        Joined::Waits { ticket, sent_away }
    }

    /// Somebody does not want to wait any more. Answers whether they still waited.
    pub(super) fn leave(&mut self, ticket: u64) -> bool {
        self.classes.iter_mut().any(|ClassLine { waiting, .. }| {
            let found = waiting.binary_search_by_key(&ticket, |it| it.ticket);
            found.ok().and_then(|at| waiting.remove(at)).is_some()
        })
    }

    /// Sends away who has waited too long, from the head of the line on.
    pub(super) fn send_away_late(&mut self, now: Timestamp, bounds: &Bounds, mut sent_away: impl FnMut(T)) {
        for (nth, class) in self.classes.iter_mut().enumerate() {
            let stands = nth + 1 < CLASSES && class.stands(now, bounds);
            let is_late = |it: &Waiting<T>| now > it.until || stands && now - it.since > bounds.target;
            while class.waiting.front().is_some_and(is_late)
                && let Some(late) = class.waiting.pop_front()
            {
                class.sent_away_at = now;
                sent_away(late.who);
            }
        }
    }

    /// Who goes next, and for how long they waited. To be asked after the late ones were sent away.
    pub(super) fn next(&mut self, now: Timestamp, bounds: &Bounds) -> Option<(T, Duration)> {
        let (nth, class) = self.classes.iter_mut().enumerate().rev().find(|(_, class)| !class.waiting.is_empty())?;
        let newest_first = nth + 1 < CLASSES && class.stands(now, bounds);
        let next = if newest_first { class.waiting.pop_back() } else { class.waiting.pop_front() };
        let Waiting { since, who, .. } = next?;
        if class.waiting.is_empty() {
            class.empty_at = now;
        }
        Some((who, now - since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Normal, Vip};

    const BOUNDS: Bounds = Bounds { patience: Duration::from_millis(100), target: Duration::from_millis(5), most: 3 };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos((1_000 + millis) * 1_000_000)
    }

    fn joins(line: &mut Line<&'static str>, millis: u64, class: Priority, who: &'static str) -> Option<u64> {
        match line.join(at(millis), class, &BOUNDS, who) {
            Joined::Waits { ticket, .. } => Some(ticket),
            Joined::Full(_) => None,
        }
    }

    #[test]
    fn first_in_first_out_while_it_empties_now_and_then() {
        let mut line = Line::new();
        joins(&mut line, 0, Normal, "first");
        joins(&mut line, 1, Normal, "second");
        assert_eq!(line.next(at(2), &BOUNDS), Some(("first", Duration::from_millis(2))));
        assert_eq!(line.next(at(2), &BOUNDS), Some(("second", Duration::from_millis(1))));
        assert_eq!(line.next(at(2), &BOUNDS), None);
    }

    #[test]
    fn the_newest_first_and_the_late_sent_away_once_it_stands() {
        let mut line = Line::new();
        let mut late = Vec::new();
        for millis in [0, 60] {
            joins(&mut line, millis, Normal, "old");
        }
        line.next(at(61), &BOUNDS);
        joins(&mut line, 110, Normal, "new");
        // Has not been empty since the first came, 112 ms ago.
        line.send_away_late(at(112), &BOUNDS, |who| late.push(who));
        assert_eq!(late, ["old"]);
        joins(&mut line, 112, Normal, "newest");
        assert_eq!(line.next(at(113), &BOUNDS).map(|(who, _)| who), Some("newest"));
        assert_eq!(line.next(at(113), &BOUNDS).map(|(who, _)| who), Some("new"));
    }

    #[test]
    fn the_highest_class_is_always_first_in_first_out() {
        let mut line = Line::new();
        let mut late = Vec::new();
        for (millis, who) in [(0, "first"), (60, "second"), (90, "third")] {
            joins(&mut line, millis, Vip, who);
        }
        assert_eq!(line.next(at(95), &BOUNDS).map(|(who, _)| who), Some("first"));
        // Has not been empty for 120 ms.
        line.send_away_late(at(120), &BOUNDS, |who| late.push(who));
        assert!(late.is_empty());
        assert_eq!(line.next(at(120), &BOUNDS).map(|(who, _)| who), Some("second"));
    }

    #[test]
    fn one_class_stands_while_the_other_does_not() {
        let mut line = Line::new();
        let mut late = Vec::new();
        joins(&mut line, 0, Background, "old job");
        joins(&mut line, 90, Normal, "visitor");
        line.send_away_late(at(100), &BOUNDS, |who| late.push(who));
        assert_eq!(late, ["old job"]);
        assert_eq!(line.next(at(101), &BOUNDS).map(|(who, _)| who), Some("visitor"));
    }

    /// Otherwise a line in overload would begin anew, with long waits, whenever everybody in it was sent away.
    #[test]
    fn sending_everybody_away_does_not_end_a_standing_line() {
        let mut line = Line::new();
        joins(&mut line, 0, Normal, "old");
        line.send_away_late(at(100), &BOUNDS, drop);
        assert_eq!(line.len(), 0);
        joins(&mut line, 101, Normal, "older");
        joins(&mut line, 102, Normal, "newer");
        assert_eq!(line.next(at(103), &BOUNDS).map(|(who, _)| who), Some("newer"));
        // After a while without anybody it does.
        let mut line = Line::new();
        joins(&mut line, 0, Normal, "old");
        line.send_away_late(at(100), &BOUNDS, drop);
        joins(&mut line, 300, Normal, "older");
        joins(&mut line, 301, Normal, "newer");
        assert_eq!(line.next(at(302), &BOUNDS).map(|(who, _)| who), Some("older"));
    }

    #[test]
    fn without_a_shorter_target_it_does_not_matter_whether_it_stands() {
        let bounds = Bounds { target: BOUNDS.patience, ..BOUNDS };
        let mut line = Line::new();
        joins(&mut line, 0, Normal, "first");
        line.send_away_late(at(90), &bounds, |_| panic!("patience lasts"));
        for (millis, who) in [(60, "second"), (70, "third")] {
            joins(&mut line, millis, Normal, who);
        }
        line.next(at(95), &bounds);
        assert_eq!(line.next(at(120), &bounds).map(|(who, _)| who), Some("second"));
    }

    #[test]
    fn nobody_waits_longer_than_the_patience() {
        let mut line = Line::new();
        let mut late = Vec::new();
        joins(&mut line, 0, Vip, "vip");
        line.send_away_late(at(100), &BOUNDS, |who| late.push(who));
        assert!(late.is_empty());
        line.send_away_late(at(101), &BOUNDS, |who| late.push(who));
        assert_eq!(late, ["vip"]);
    }

    /// Otherwise those who were let wait for longer would be sent away at the very moment when there are places again.
    #[test]
    fn less_patience_is_for_those_who_come_later() {
        let mut line = Line::new();
        let mut late = Vec::new();
        joins(&mut line, 0, Vip, "patient");
        let less = Bounds { patience: Duration::from_millis(30), ..BOUNDS };
        line.send_away_late(at(90), &less, |who| late.push(who));
        assert!(late.is_empty());
        assert_eq!(line.next(at(90), &less).map(|(who, _)| who), Some("patient"));
        line.join(at(90), Vip, &less, "impatient");
        line.send_away_late(at(121), &BOUNDS, |who| late.push(who));
        assert_eq!(late, ["impatient"]);
    }

    #[test]
    fn higher_classes_go_first_and_make_room_for_themselves() {
        let mut line = Line::new();
        joins(&mut line, 0, Background, "job");
        joins(&mut line, 0, Normal, "visitor");
        joins(&mut line, 0, Normal, "visitor");
        assert!(joins(&mut line, 0, Background, "another job").is_none());
        let Joined::Waits { sent_away, .. } = line.join(at(0), Vip, &BOUNDS, "vip") else {
            panic!("no room for a vip")
        };
        assert_eq!(sent_away, Some("job"));
        assert_eq!(line.next(at(1), &BOUNDS).map(|(who, _)| who), Some("vip"));
        assert!(line.is_before(Normal) && !line.is_before(Vip));
    }

    #[test]
    fn whoever_leaves_is_not_called() {
        let mut line = Line::new();
        let ticket = joins(&mut line, 0, Normal, "gone").unwrap_or_default();
        assert!(line.leave(ticket));
        assert!(!line.leave(ticket));
        assert_eq!(line.next(at(0), &BOUNDS), None);
    }
}
