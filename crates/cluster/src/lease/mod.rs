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
mod table;
mod tally;
mod terms;
mod waiting;
mod wire;
