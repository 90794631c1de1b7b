//! One plain table instead of a screen: for scripts, logs and simple terminals.

use std::fmt::Write;
use std::time::{Duration, Instant};

use sluicegate_terminal::table::{self, RowStyle};

use super::client::{AdminClient, ClientError};
use super::draw::format;
use super::model::{Model, RuleRow};
use super::poll::{self, Update};

/// Maximum number of bans listed.
const MAX_BANS: usize = 20;

/// Samples a process for one interval, to compute rates, and renders a table.
pub(super) async fn sample_once(
    mut client: AdminClient,
    endpoint: String,
    interval: Duration,
) -> Result<String, ClientError> {
    let mut live = client.open_stream().await?;
    let mut model = Model::new(endpoint, Duration::ZERO);
    let first = live.next().await?;
    let start = first.at_ms;
    model.apply(Update::Tick(first), Instant::now());
    for update in poll::poll_once(&mut client).await {
        model.apply(update, Instant::now());
    }
    loop {
        let next = live.next().await?;
        // The server's second is not exact to the millisecond; a clock that went back ends the wait.
        let has_passed = next.at_ms.checked_sub(start).is_none_or(|ms| u128::from(ms) + 300 >= interval.as_millis());
        if has_passed {
            model.apply(Update::Tick(next), Instant::now());
            return Ok(render(&model));
        }
    }
}

fn render(model: &Model) -> String {
    let state = model.displayed();
    let header = ["rule", "admitted", "refused", "banned", "admitted/s", "refused/s", "banned/s", "waiting", "used"];
    let rows = model.rules().into_iter().map(row).collect();
    let mut text = summary(model);
    text.push('\n');
    text.push_str(&table::draw(RowStyle::Plain, header, rows));
    let protection_row = |rule: &RuleRow| {
        let protection = rule.figures.protection.as_ref()?;
        let words = [&rule.figures.name, &protection.state, &protection.ceiling, &protection.reason];
        Some(words.map(ToString::to_string))
    };
    let protections: Vec<[String; 4]> = model.rules().into_iter().filter_map(protection_row).collect();
    if !protections.is_empty() {
        text.push('\n');
        text.push_str(&table::draw(RowStyle::Plain, ["adaptive rule", "state", "ceiling", "reason"], protections));
    }
    let bans = model.bans();
    if !bans.is_empty() {
        let row =
            |ban: &&super::api_types::Ban| [ban.rule.to_string(), ban.key.to_string(), format::time(ban.remaining)];
        text.push('\n');
        text.push_str(&table::draw(
            RowStyle::Plain,
            ["banned by", "key", "remaining"],
            bans.iter().take(MAX_BANS).map(row).collect(),
        ));
        if bans.len() > MAX_BANS {
            // Writing to a string does not fail.
            let _ = writeln!(text, " and {} more", bans.len() - MAX_BANS);
        }
    }
    let error = state.tick.as_ref().and_then(|tick| tick.last_error.as_ref());
    if let Some(error) = error.or(state.status.as_ref().and_then(|status| status.last_error.as_ref())) {
        let _ = writeln!(text, "\nrules not applied: {error}");
    }
    text
}

fn summary(model: &Model) -> String {
    let state = model.displayed();
    let mut parts = vec![model.endpoint.clone()];
    if let Some(status) = &state.status {
        parts.push(format!("version {}", status.version));
        parts.push(format!("up {}", format::time(status.uptime)));
    }
    parts.push(format!("{} rules", state.rules.len()));
    if let Some(tick) = &state.tick {
        parts.push(format!("{} bans", tick.bans));
        if let Some(store) = &tick.store {
            let nodes = tick.nodes.map_or_else(String::new, |nodes| format!(" ({nodes} nodes)"));
            parts.push(format!("store {store}{nodes}"));
        }
    }
    parts.join(", ") + "\n"
}

fn row(rule: &RuleRow) -> [String; 9] {
    let RuleRow { figures, rates, .. } = rule;
    [
        figures.name.to_string(),
        figures.admitted.to_string(),
        figures.refused.to_string(),
        figures.banned.to_string(),
        format::rate(rates.map(|rates| rates.admitted)),
        format::rate(rates.map(|rates| rates.refused)),
        format::rate(rates.map(|rates| rates.banned)),
        figures.waiting.to_string(),
        figures.used.map_or_else(|| "-".to_owned(), |used| format!("{:.0}%", used * 100.0)),
    ]
}
