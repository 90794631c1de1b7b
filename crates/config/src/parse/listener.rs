//! Parses listen addresses; reports duplicates.

use std::net::SocketAddr;

use super::ParseContext;
use super::map::FieldMap;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::source::Span;

/// A listen address and its span.
pub(crate) type ClaimedAddress = (SocketAddr, Span);

/// Parses a field with a listen address.
pub(crate) fn listener(
    fields: &FieldMap<'_>,
    name: &'static str,
    listeners: &mut Vec<ClaimedAddress>,
) -> Option<SocketAddr> {
    address(&fields.get(name)?, listeners)
}

/// Parses a listen address.
pub(crate) fn address(item: &FieldValue<'_>, listeners: &mut Vec<ClaimedAddress>) -> Option<SocketAddr> {
    let address = item.address()?;
    claim(item.context, (address, item.span()), listeners);
    Some(address)
}

/// Claims an address; reports it if it is already in use.
pub(crate) fn claim(context: &ParseContext<'_>, (address, span): ClaimedAddress, listeners: &mut Vec<ClaimedAddress>) {
    let in_use = listeners.iter().find(|(other, _)| {
        let overlaps = |a: &SocketAddr, b: &SocketAddr| a.ip().is_unspecified() && a.is_ipv4() == b.is_ipv4();
        address.port() != 0
            && other.port() == address.port()
            && (other.ip() == address.ip() || overlaps(other, &address) || overlaps(&address, other))
    });
    if let Some((other, first)) = in_use {
        context.report(
            DiagnosticBuilder::error(span, format!("{address} is used by another listener"))
                .label("already in use")
                .with_related(*first, format!("{other} is used here"))
                .help("use a different port for each listener"),
        );
    }
    listeners.push((address, span));
}
