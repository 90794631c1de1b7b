//! Addresses to listen at, none of them twice.

use std::net::SocketAddr;

use super::Context;
use super::fields::Fields;
use super::item::Item;
use crate::diagnostic::Finding;
use crate::source::Span;

/// Where something listens, and where the file says so.
pub(crate) type Listener = (SocketAddr, Span);

/// A field with an address to listen at.
pub(crate) fn listener(fields: &Fields<'_>, name: &'static str, listeners: &mut Vec<Listener>) -> Option<SocketAddr> {
    address(&fields.get(name)?, listeners)
}

/// An address to listen at.
pub(crate) fn address(item: &Item<'_>, listeners: &mut Vec<Listener>) -> Option<SocketAddr> {
    let address = item.address()?;
    claim(item.context, (address, item.span()), listeners);
    Some(address)
}

/// Notes that an address is given out. Two of the same are reported: the second could not be had.
pub(crate) fn claim(context: &Context<'_>, (address, span): Listener, listeners: &mut Vec<Listener>) {
    let taken = listeners.iter().find(|(other, _)| {
        let meet = |a: &SocketAddr, b: &SocketAddr| a.ip().is_unspecified() && a.is_ipv4() == b.is_ipv4();
        address.port() != 0
            && other.port() == address.port()
            && (other.ip() == address.ip() || meet(other, &address) || meet(&address, other))
    });
    if let Some((other, first)) = taken {
        context.report(
            Finding::error(span, format!("{address} is taken by another listener"))
                .label("cannot be had twice")
                .also(*first, format!("{other} is given out here"))
                .help("give each listener a port of its own"),
        );
    }
    listeners.push((address, span));
}
