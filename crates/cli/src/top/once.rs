//! One plain table instead of a screen: for scripts, logs and terminals that cannot do more.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::client::{Client, Trouble};
use super::draw::figures;
use super::model::{Model, RuleRow};
use super::watch::{self, News};
use crate::table::{self, Rows};

/// The most bans that are listed.
const MOST_BANS: usize = 20;

/// Looks at a process for as long as it takes to know rates, and tells what there was to see.
pub(super) async fn look(mut client: Client, place: String, interval: Duration) -> Result<String, Trouble> {
    let mut live = client.live().await?;
    let mut model = Model::new(place, Duration::ZERO);
    let first = live.next().await?;
    let begun = first.at_ms;
    model.hear(News::Tick(first), Instant::now());
    for news in watch::look_once(&mut client).await {
        model.hear(news, Instant::now());
    }
    loop {
        let next = live.next().await?;
        // The server's second is not to the millisecond; a clock that went back ends the wait.
        let has_passed = next.at_ms.checked_sub(begun).is_none_or(|ms| u128::from(ms) + 300 >= interval.as_millis());
        if has_passed {
            model.hear(News::Tick(next), Instant::now());
            return Ok(tell(&model));
        }
    }
}

fn tell(model: &Model) -> String {
    let seen = model.seen();
    let header = ["rule", "passed", "limited", "banned", "passed/s", "limited/s", "banned/s", "waiting", "used"];
    let rows = model.rules().into_iter().map(row).collect();
    let mut text = summary(model);
    text.push('\n');
    text.push_str(&table::draw(Rows::Plain, header, rows));
    let held = |rule: &RuleRow| {
        let protection = rule.figures.protection.as_ref()?;
        let words = [&rule.figures.name, &protection.state, &protection.ceiling, &protection.reason];
        Some(words.map(ToString::to_string))
    };
    let protections: Vec<[String; 4]> = model.rules().into_iter().filter_map(held).collect();
    if !protections.is_empty() {
        text.push('\n');
        text.push_str(&table::draw(Rows::Plain, ["protected by", "state", "holds", "why"], protections));
    }
    let bans = model.bans();
    if !bans.is_empty() {
        let row = |ban: &&super::wire::Ban| [ban.rule.to_string(), ban.key.to_string(), figures::time(ban.remaining)];
        text.push('\n');
        text.push_str(&table::draw(
            Rows::Plain,
            ["banned by", "key", "time left"],
            bans.iter().take(MOST_BANS).map(row).collect(),
        ));
        if bans.len() > MOST_BANS {
            // Writing to a text does not fail.
            let _ = writeln!(text, " and {} more", bans.len() - MOST_BANS);
        }
    }
    let error = seen.tick.as_ref().and_then(|tick| tick.last_error.as_ref());
    if let Some(error) = error.or(seen.status.as_ref().and_then(|status| status.last_error.as_ref())) {
        let _ = writeln!(text, "\nrules not taken up: {error}");
    }
    text
}

fn summary(model: &Model) -> String {
    let seen = model.seen();
    let mut parts = vec![model.place.clone()];
    if let Some(status) = &seen.status {
        parts.push(format!("version {}", status.version));
        parts.push(format!("up {}", figures::time(status.uptime)));
    }
    parts.push(format!("{} rules", seen.rules.len()));
    if let Some(tick) = &seen.tick {
        parts.push(format!("{} bans", tick.bans));
        if let Some(store) = &tick.store {
            let nodes = tick.nodes.map_or_else(String::new, |nodes| format!(" ({nodes} nodes)"));
            parts.push(format!("store {store}{nodes}"));
        }
    }
    parts.join(", ") + "\n"
}

fn row(rule: &RuleRow) -> [String; 9] {
    let RuleRow { figures: counted, rates, .. } = rule;
    [
        counted.name.to_string(),
        counted.admitted.to_string(),
        counted.refused.to_string(),
        counted.banned.to_string(),
        figures::rate(rates.map(|rates| rates.passed)),
        figures::rate(rates.map(|rates| rates.limited)),
        figures::rate(rates.map(|rates| rates.banned)),
        counted.waiting.to_string(),
        counted.used.map_or_else(|| "-".to_owned(), |used| format!("{:.0}%", used * 100.0)),
    ]
}
