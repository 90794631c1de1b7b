//! `POST /v1/check`: one check or many.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};

use super::decide;
use super::problem::Problem;
use super::read::{Asked, Check};
use super::render::Document;

/// Answers one check or a list of them.
pub(super) async fn answer(sluice: &Sluice, asked: Asked<'_>) -> Result<Response<Full<Bytes>>, Problem> {
    let mut document = Document::new();
    match (asked.checks.as_slice(), asked.all_or_nothing) {
        ([], _) => document.decision(&decide::decide(sluice, &asked.check).await?),
        (checks, false) => each(sluice, checks, &mut document).await?,
        (checks, true) => together(sluice, checks, &mut document).await?,
    }
    Ok(document.answer(StatusCode::OK))
}

/// What is asked for or was taken; dropped before it is kept, it is given back.
#[derive(Default)]
struct Taking {
    asked: Vec<Admission>,
    decided: Vec<Outcome>,
}

impl Taking {
    /// Lets it stand.
    fn keep(mut self) {
        self.decided.clear();
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        // Those that wait for the store still take themselves back. The last goes first: a bucket gives back only
        // to whoever took from it last.
        let at_once = self.asked.iter_mut().filter_map(Admission::take);
        self.decided.drain(..).chain(at_once).rev().for_each(Outcome::give_back);
    }
}

/// Decides each check by itself. What permits they take count until all are decided.
async fn each(sluice: &Sluice, checks: &[Check<'_>], document: &mut Document) -> Result<(), Problem> {
    let mut taking = Taking::default();
    // All are asked before the first is waited for: the store hears of them at once.
    for (index, check) in checks.iter().enumerate() {
        taking.asked.push(decide::ask(sluice, check).map_err(|problem| problem.within(&format!("/checks/{index}")))?);
    }
    for (index, check) in checks.iter().enumerate() {
        let outcome = match taking.asked[index].take() {
            Some(outcome) => outcome,
            None => (&mut taking.asked[index]).await,
        };
        let countable = decide::countable(&outcome, check);
        taking.decided.push(outcome);
        countable.map_err(|problem| problem.within(&format!("/checks/{index}")))?;
    }
    let allowed = taking.decided.iter().all(Outcome::is_admitted);
    document.results(allowed, None, &taking.decided);
    taking.keep();
    Ok(())
}

/// Decides all checks together, one after the other until one is refused.
async fn together(sluice: &Sluice, checks: &[Check<'_>], document: &mut Document) -> Result<(), Problem> {
    let mut taking = Taking::default();
    for (index, check) in checks.iter().enumerate() {
        let outcome =
            decide::decide(sluice, check).await.map_err(|problem| problem.within(&format!("/checks/{index}")))?;
        let admitted = outcome.is_admitted();
        taking.decided.push(outcome);
        if !admitted {
            document.results(false, Some(index), &taking.decided);
            return Ok(());
        }
    }
    document.results(true, None, &taking.decided);
    taking.keep();
    Ok(())
}
