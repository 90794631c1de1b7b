mod demand;
mod holder;
mod ledger;
mod message;
mod tally;
mod terms;
