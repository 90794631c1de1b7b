//! Client address of a call.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Types that contain a client address.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client address",
    label = "cannot be used as `client.ip`",
    note = "use an `IpAddr`, a `SocketAddr`, or an `Option` of one; parse text with `.parse::<IpAddr>().ok()`"
)]
pub trait ClientIp {
    /// The address, if it is known.
    fn client_ip(&self) -> Option<IpAddr>;
}

macro_rules! address {
    ($($address:ty, $it:ident => $ip:expr;)*) => {$(
        impl ClientIp for $address {
            fn client_ip(&self) -> Option<IpAddr> {
                let $it = *self;
                Some($ip)
            }
        }
    )*};
}
address! {
    IpAddr, ip => ip;
    Ipv4Addr, ip => ip.into();
    Ipv6Addr, ip => ip.into();
    SocketAddr, address => address.ip();
    SocketAddrV4, address => (*address.ip()).into();
    SocketAddrV6, address => (*address.ip()).into();
}

impl<A: ClientIp> ClientIp for Option<A> {
    fn client_ip(&self) -> Option<IpAddr> {
        self.as_ref()?.client_ip()
    }
}

impl<A: ClientIp + ?Sized> ClientIp for &A {
    fn client_ip(&self) -> Option<IpAddr> {
        (**self).client_ip()
    }
}

/// Returns the client address, if it is known.
pub fn client_ip(address: &(impl ClientIp + ?Sized)) -> Option<IpAddr> {
    address.client_ip()
}
