//! How a door is made.

use std::time::Duration;

use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::{Limit, Limiter};
use tokio::net::{TcpListener, TcpSocket, ToSocketAddrs, lookup_host};

use crate::clients::Clients;
use crate::doorway::Doorway;
use crate::error::DoorError;
use crate::files;
use crate::gate::Gate;
use crate::listener::FrontDoor;
use crate::refusal::Refusal;
use crate::watchman::Patience;
use crate::workers::Workers;

/// The connections served at once unless told otherwise, where the process may open so many files.
const MAX_CONNECTIONS: usize = 10_000;

/// The most of anything that is counted here.
const MOST: usize = u32::MAX as usize;

/// The least hyper can work with.
const LEAST_HEADER_BYTES: usize = 8 << 10;

/// Collects what a door needs.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_door::{FrontDoor, Refusal};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), sluicegate_door::DoorError> {
/// let door = FrontDoor::builder()
///     .max_connections(200)
///     .queue(50)
///     .queue_wait(Duration::from_secs(5))
///     .per_client(20)
///     .in_flight(40)
///     .header_deadline(Duration::from_secs(10))
///     .refusal(Refusal::Http503)
///     .bind("127.0.0.1:0")
///     .await?;
///
/// let error = FrontDoor::builder().max_connections(0).bind("127.0.0.1:0").await.err().map(|error| error.to_string());
/// assert_eq!(error.as_deref(), Some("max_connections is zero: it must be at least 1 (to serve nobody, do not listen)"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    max_connections: Option<usize>,
    queue: usize,
    queue_wait: Duration,
    per_client: Option<usize>,
    in_flight: Option<usize>,
    in_flight_wait: Option<Duration>,
    header_deadline: Duration,
    keep_alive: Duration,
    send_deadline: Duration,
    parting: Duration,
    header_bytes: usize,
    max_streams: u32,
    tunnels: bool,
    backlog: u32,
    refusal: Refusal,
    clock: ClockHandle,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            max_connections: None,
            queue: 500,
            queue_wait: Duration::from_secs(10),
            per_client: None,
            in_flight: None,
            in_flight_wait: None,
            header_deadline: Duration::from_secs(10),
            keep_alive: Duration::from_secs(60),
            send_deadline: Duration::from_secs(60),
            parting: Duration::ZERO,
            header_bytes: 64 << 10,
            max_streams: 200,
            tunnels: true,
            backlog: 1_024,
            refusal: Refusal::default(),
            clock: ClockHandle::system(),
        }
    }
}

impl Builder {
    /// The most connections served at once. Unless told otherwise 10,000, or as many as the files this
    /// process may open leave room for.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// How many further connections may wait for a place, first in, first out, unread; 500 unless told
    /// otherwise. With 0, whoever finds no place is refused at once.
    pub fn queue(mut self, connections: usize) -> Self {
        self.queue = connections;
        self
    }

    /// The longest a connection waits for a place; 10 seconds unless told otherwise.
    pub fn queue_wait(mut self, longest: Duration) -> Self {
        self.queue_wait = longest;
        self
    }

    /// The most connections of one client, served and waiting ones together; any number unless told
    /// otherwise. A client is an IPv4 address or a /64 of IPv6.
    pub fn per_client(mut self, connections: usize) -> Self {
        self.per_client = Some(connections);
        self
    }

    /// The most requests being worked on at once, over all connections; any number unless told otherwise.
    /// Further requests wait in their connections, first in, first out. See [`Workers`].
    pub fn in_flight(mut self, requests: usize) -> Self {
        self.in_flight = Some(requests);
        self
    }

    /// The longest a request waits to be worked on before it is answered 503; as long as it takes unless
    /// told otherwise.
    pub fn in_flight_wait(mut self, longest: Duration) -> Self {
        self.in_flight_wait = Some(longest);
        self
    }

    /// The longest a request's head may take from its first byte to its last, and the first one from when
    /// the connection gets its place; 10 seconds unless told otherwise. Counts where the door
    /// [serves](FrontDoor::serve).
    pub fn header_deadline(mut self, longest: Duration) -> Self {
        self.header_deadline = longest;
        self
    }

    /// The longest a connection may be idle between two requests; 60 seconds unless told otherwise. Counts
    /// where the door [serves](FrontDoor::serve).
    pub fn keep_alive(mut self, longest: Duration) -> Self {
        self.keep_alive = longest;
        self
    }

    /// The longest a client may take to read on in an answer that has more for it; 60 seconds unless told
    /// otherwise. An answer that the service is slow to give is another matter. Counts where the door
    /// [serves](FrontDoor::serve).
    pub fn send_deadline(mut self, longest: Duration) -> Self {
        self.send_deadline = longest;
        self
    }

    /// How long an idle connection of HTTP/1 is kept when the door closes, for a request that may be on its
    /// way: it is answered, and told that it was the last. None unless told otherwise: idle connections are
    /// closed at once, and such a request is lost.
    pub fn parting(mut self, longest: Duration) -> Self {
        self.parting = longest;
        self
    }

    /// The longest head of a request in bytes; 64 KiB unless told otherwise, and at least 8 KiB. Counts
    /// where the door [serves](FrontDoor::serve).
    pub fn header_bytes(mut self, bytes: usize) -> Self {
        self.header_bytes = bytes;
        self
    }

    /// The most requests at once on one connection of HTTP/2; 200 unless told otherwise. Counts where the
    /// door [serves](FrontDoor::serve).
    pub fn max_streams(mut self, streams: u32) -> Self {
        self.max_streams = streams;
        self
    }

    /// Whether clients of HTTP/2 are told that they may ask for tunnels, as WebSocket does (RFC 8441); so
    /// unless told otherwise. What becomes of it is up to the service.
    pub fn tunnels(mut self, offered: bool) -> Self {
        self.tunnels = offered;
        self
    }

    /// How many connections the kernel may hold that we have not taken yet; 1,024 unless told otherwise, and
    /// at most what the kernel allows.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// What a refused connection is told.
    pub fn refusal(mut self, refusal: Refusal) -> Self {
        self.refusal = refusal;
        self
    }

    /// Takes the time from another clock than the system's.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Opens the door at an address. With port 0 the system chooses one: see [`FrontDoor::local_addr`].
    pub async fn bind(self, address: impl ToSocketAddrs) -> Result<FrontDoor, DoorError> {
        self.checked_connections()?;
        let listener = listen(address, self.backlog).await?;
        self.with_listener(listener)
    }

    /// Opens the door at a listener made elsewhere; its backlog is as it was made.
    pub fn with_listener(self, listener: TcpListener) -> Result<FrontDoor, DoorError> {
        Ok(self.doorway()?.at(listener))
    }

    /// The bounds of the door, for listeners to come: each is to be opened in the runtime that serves it.
    pub fn doorway(self) -> Result<Doorway, DoorError> {
        let max_connections = self.checked_connections()?;
        let workers = Workers::new(self.in_flight, max_connections, self.in_flight_wait, self.clock.clone());
        let gate = Gate::new(
            Limiter::builder()
                // At least one, as checked.
                .limit(Limit::concurrency(max_connections as u64).map_err(|_| zero("max_connections"))?)
                .max_waiting(self.queue)
                .max_waiting_total(self.queue)
                .clock(self.clock.clone())
                .build()
                .map_err(|_| zero("max_connections"))?,
            Clients::new(self.per_client),
            workers?,
            self.queue_wait,
            Patience {
                head: self.header_deadline,
                idle: self.keep_alive,
                send: self.send_deadline,
                parting: self.parting,
            },
            self.clock,
        );
        Ok(Doorway {
            gate,
            refusal: self.refusal,
            header_bytes: self.header_bytes,
            max_streams: self.max_streams,
            tunnels: self.tunnels,
        })
    }

    /// How many connections to serve, if all numbers make sense.
    fn checked_connections(&self) -> Result<usize, DoorError> {
        let counts = [
            ("max_connections", self.max_connections),
            ("per_client", self.per_client),
            ("in_flight", self.in_flight),
            ("max_streams", Some(self.max_streams as usize)),
        ];
        for (field, value) in counts {
            if value == Some(0) {
                return Err(zero(field));
            }
        }
        for (field, value) in counts.into_iter().chain([("queue", Some(self.queue))]) {
            if let Some(value) = value.filter(|value| *value > MOST) {
                return Err(DoorError::TooLarge { field, value, most: MOST });
            }
        }
        let times = [
            ("header_deadline", self.header_deadline),
            ("keep_alive", self.keep_alive),
            ("send_deadline", self.send_deadline),
        ];
        for (field, time) in times {
            if time.is_zero() {
                return Err(DoorError::NoTime { field });
            }
        }
        connections_for(self.max_connections, self.queue, files::limit())
    }
}

/// How many connections can be served by a process that may open so many files.
fn connections_for(wanted: Option<usize>, queue: usize, limit: Option<usize>) -> Result<usize, DoorError> {
    let Some(limit) = limit else { return Ok(wanted.unwrap_or(MAX_CONNECTIONS)) };
    let room = limit.saturating_sub(queue).saturating_sub(files::TO_SPARE);
    let max_connections = wanted.unwrap_or_else(|| room.clamp(1, MAX_CONNECTIONS));
    if max_connections <= room {
        return Ok(max_connections);
    }
    let needed = max_connections.saturating_add(queue).saturating_add(files::TO_SPARE);
    Err(DoorError::TooFewFiles { max_connections, queue, needed, limit })
}

fn zero(field: &'static str) -> DoorError {
    let remedy = match field {
        "max_connections" => "to serve nobody, do not listen",
        _ => "to set no bound, leave it out",
    };
    DoorError::Zero { field, remedy }
}

async fn listen(address: impl ToSocketAddrs, backlog: u32) -> Result<TcpListener, DoorError> {
    let failed = |address: String| move |source| DoorError::Listen { address, source };
    let mut last = None;
    for address in lookup_host(address).await.map_err(failed("the address given".to_owned()))? {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // As everybody does: a restarted server must not wait for connections of its predecessor.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(backlog)
        };
        match bound() {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(failed(address.to_string())(error)),
        }
    }
    Err(last.unwrap_or_else(|| failed("the address given".to_owned())(std::io::ErrorKind::AddrNotAvailable.into())))
}

/// As large as asked for, but no less than hyper can work with.
pub(crate) fn buffer_for(header_bytes: usize) -> usize {
    header_bytes.max(LEAST_HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_the_files_of_the_process() {
        assert_eq!(connections_for(None, 500, None).unwrap(), 10_000);
        assert_eq!(connections_for(Some(50_000), 500, None).unwrap(), 50_000);
        assert_eq!(connections_for(None, 500, Some(100_000)).unwrap(), 10_000);
        // The default makes do with what is there; a number that was asked for is kept or refused.
        assert_eq!(connections_for(None, 500, Some(1_024)).unwrap(), 1_024 - 500 - files::TO_SPARE);
        let error = connections_for(Some(1_000), 500, Some(1_024)).unwrap_err().to_string();
        assert_eq!(
            error,
            "1000 connections and 500 in line need 1820 files, but this process may open 1024: raise that (ulimit -n) \
             or lower them"
        );
        assert!(connections_for(None, usize::MAX, Some(1_024)).is_err());
    }
}
