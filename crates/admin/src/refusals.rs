//! Telling of refusals in the log, however many there are.
//!
//! A flood of refusals must not become a flood of lines, nor cost those who are refused anything: once a second the
//! counts of all rules are compared with those of before, and each rule that refused has one line that says how often.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::rule::Mode;
use sluicegate_engine::sluice::RuleCounts;
use tracing::info;

/// How often counts are compared.
const EVERY: Duration = Duration::from_secs(1);

/// How many rules have a line of their own each time: those that refused most.
const MOST_LINES: usize = 20;

/// What a rule has refused since it was last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct News {
    rule: String,
    refused: u64,
    banned: u64,
    /// Whether the rule only watches.
    shadow: bool,
}

/// Writes a line a second for each rule that refuses, until it is dropped.
pub async fn tell_refusals(sluice: Sluice) {
    let mut told = Told::default();
    told.news(&sluice.counts());
    loop {
        sluice.clock().sleep(EVERY).await;
        let mut news = told.news(&sluice.counts());
        if news.is_empty() {
            continue;
        }
        let shadows: Vec<String> =
            sluice.rules().into_iter().filter(|rule| rule.mode == Mode::Shadow).map(|rule| rule.name).collect();
        news.iter_mut().for_each(|news| news.shadow = shadows.contains(&news.rule));
        let (lines, rest) = news.split_at(news.len().min(MOST_LINES));
        let strained: HashMap<String, String> =
            sluice.gates().into_iter().map(|(rule, gate)| (rule.name, gate.notice().reason.clone())).collect();
        for News { rule, refused, banned, shadow } in lines {
            let reason = strained.get(rule).filter(|reason| !reason.is_empty());
            match (shadow, reason) {
                (true, Some(reason)) => info!(rule, count = refused, reason, "would have refused"),
                (true, None) => info!(rule, count = refused, "would have refused"),
                (false, Some(reason)) => info!(rule, count = refused, banned, reason, "refused"),
                (false, None) => info!(rule, count = refused, banned, "refused"),
            }
        }
        if !rest.is_empty() {
            let count: u64 = rest.iter().map(|news| news.refused + news.banned).sum();
            info!(rules = rest.len(), count, "refused by further rules");
        }
    }
}

/// What has been told so far.
#[derive(Default)]
struct Told(HashMap<String, (u64, u64)>);

impl Told {
    /// What is new, those that refused most first.
    fn news(&mut self, counts: &[RuleCounts]) -> Vec<News> {
        let mut news = Vec::new();
        let mut now = HashMap::with_capacity(counts.len());
        for RuleCounts { rule, refused, banned, .. } in counts {
            // A rule that was taken out and put back counts anew.
            let (refused_before, banned_before) =
                self.0.get(rule).copied().filter(|known| known.0 <= *refused && known.1 <= *banned).unwrap_or_default();
            let (more_refused, more_banned) = (refused - refused_before, banned - banned_before);
            if more_refused + more_banned > 0 {
                news.push(News { rule: rule.clone(), refused: more_refused, banned: more_banned, shadow: false });
            }
            now.insert(rule.clone(), (*refused, *banned));
        }
        self.0 = now;
        news.sort_by_key(|news| std::cmp::Reverse(news.refused + news.banned));
        news
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::rule::{Request, Rule};

    use super::*;

    fn refused(news: &[News]) -> Vec<(&str, u64)> {
        news.iter().map(|news| (news.rule.as_str(), news.refused)).collect()
    }

    #[test]
    fn only_what_is_new_is_told_the_most_first() {
        let rules = || ["a", "b"].map(|name| Rule::new(name, ["1/1h".parse().unwrap()])).to_vec();
        let sluice = Sluice::builder().rules(rules()).build().unwrap();
        let ask = |rule, times| (0..times).for_each(|_| drop(sluice.decide_named(rule, &Request::new("", ""))));
        let mut told = Told::default();
        assert!(told.news(&sluice.counts()).is_empty());
        ask("a", 3);
        ask("b", 6);
        assert_eq!(refused(&told.news(&sluice.counts())), [("b", 5), ("a", 2)]);
        assert!(told.news(&sluice.counts()).is_empty());
        ask("a", 1);
        assert_eq!(refused(&told.news(&sluice.counts())), [("a", 1)]);
    }

    #[test]
    fn a_rule_that_begins_anew_is_told_of_from_its_beginning() {
        let counted = |refused| RuleCounts { rule: "a".to_owned(), refused, ..RuleCounts::default() };
        let mut told = Told::default();
        told.news(&[counted(10)]);
        assert_eq!(refused(&told.news(&[counted(3)])), [("a", 3)]);
    }
}
