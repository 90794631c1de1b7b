#[cfg(test)]
mod chance;
mod demand;
#[cfg(test)]
mod differential;
mod holder;
mod ledger;
mod message;
#[cfg(test)]
mod simulation;
mod tally;
mod terms;
mod wire;
