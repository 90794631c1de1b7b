mod demand;
mod holder;
mod ledger;
mod message;
#[cfg(test)]
mod simulation;
mod tally;
mod terms;
