//! The door itself: takes connections from the kernel and gives out those that have a place.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate_engine::clock::Sleep;
use tokio::net::TcpListener;

use crate::builder::Builder;
use crate::connection::Connection;
use crate::counts::{DoorHandle, Why, add_one};
use crate::doorway::Doorway;
use crate::drive::Host;
use crate::gate::{Arrival, Gate, Queue};
use crate::refusal::Porter;
use crate::serve::Serve;
use crate::socket::{Listening, Socket};
use crate::workers::Workers;

/// How long nothing is taken from a kernel that has nothing to give, for example because this process has
/// too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections that nobody has taken yet are told that the door is closing.
const MOST_TOLD: usize = 4_096;

/// A listener with a bound on everything. See the [crate's head](crate).
pub struct FrontDoor {
    listener: Listening,
    doorway: Doorway,
    queue: Queue<(Socket, SocketAddr)>,
    porter: Porter,
    pause: Option<Sleep>,
}

impl FrontDoor {
    /// Bounds, deadlines, an own clock.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(listener: Listening, doorway: Doorway) -> Self {
        let porter = Porter::new(doorway.refusal, doorway.gate.clock.clone());
        Self { listener, doorway, queue: Queue::new(), porter, pause: None }
    }

    /// A further listener of this door: all bounds and counts are for both together. For servers with one
    /// listener per core (`SO_REUSEPORT`), and for those that listen at several addresses.
    ///
    /// ```
    /// use sluicegate_door::FrontDoor;
    /// use tokio::net::TcpListener;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let door = FrontDoor::builder().max_connections(100).queue(0).bind("127.0.0.1:0").await?;
    /// let other = door.also_at(TcpListener::bind("127.0.0.1:0").await?);
    /// assert_ne!(door.local_addr()?, other.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn also_at(&self, listener: TcpListener) -> Self {
        self.doorway.at(listener)
    }

    /// Where it listens; at a Unix socket, the address of this machine without a port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The counts, for whoever looks on.
    pub fn handle(&self) -> DoorHandle {
        DoorHandle::new(Arc::clone(&self.doorway.gate))
    }

    /// The bound on requests being worked on, as a layer. [`FrontDoor::serve`] applies it by itself; this
    /// is for servers that use the door as a listener only.
    pub fn workers(&self) -> Workers {
        self.doorway.gate.workers.clone()
    }

    /// Serves single connections of this door as it does itself, for servers that do the accepting.
    pub fn host(&self) -> Host {
        Host::new(&self.doorway)
    }

    /// Serves HTTP/1 and HTTP/2. See [`Serve`].
    pub fn serve<S>(self, service: S) -> Serve<S> {
        Serve::new(self, service)
    }

    /// The next connection that has a place. It keeps it until it is dropped.
    ///
    /// The queue moves on only while this is awaited, and a listener that is not awaited holds up the queue of
    /// [all listeners](Self::also_at) of its door. Dropping the future loses nothing. Errors of the system are
    /// counted and survived.
    pub async fn accept(&mut self) -> Connection {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Connection> {
        while let Poll::Ready(((stream, peer), fared)) = self.queue.poll_first(context) {
            match fared {
                Ok(place) => return Poll::Ready(Connection::new(stream, peer, place)),
                Err(why) => self.refuse(stream, why),
            }
        }
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(Pin::new(pause).poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => {
                    add_one(&self.doorway.gate.counters.accepted);
                    match self.doorway.gate.arrive(peer.ip(), context) {
                        Arrival::Entered(place) => return Poll::Ready(Connection::new(stream, peer, place)),
                        Arrival::Waits(place) => self.queue.push((stream, peer), place),
                        Arrival::Refused(why) => self.refuse(stream, why),
                    }
                }
                // That one connection was gone before we took it.
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => {
                    add_one(&self.doorway.gate.counters.accept_errors);
                    self.pause = Some(self.doorway.gate.clock.sleep(PAUSE));
                }
            }
        }
    }

    /// The next connection in the queue that gets a place; nobody is taken from the kernel. `None`: nobody waits
    /// any more. For servers that hand their listener over to another process.
    pub async fn next_waiting(&mut self) -> Option<Connection> {
        poll_fn(|context| {
            while !self.queue.is_empty() {
                let ((stream, peer), fared) = ready!(self.queue.poll_first(context));
                match fared {
                    Ok(place) => return Poll::Ready(Some(Connection::new(stream, peer, place))),
                    Err(why) => self.refuse(stream, why),
                }
            }
            Poll::Ready(None)
        })
        .await
    }

    /// Closes the listener. Everybody who has no place is told: those in the queue, and those whom nobody has
    /// taken from the kernel yet.
    pub async fn close(mut self) {
        let turn_away = poll_fn(|context| {
            self.turn_everybody_away(context);
            Poll::Ready(())
        });
        // All of them at once, however many there are.
        tokio::task::unconstrained(turn_away).await;
        self.into_porter().all_gone().await;
    }

    fn refuse(&mut self, stream: Socket, why: Why) {
        self.doorway.gate.counters.refused(why);
        self.porter.refuse(stream);
    }

    /// Tells everybody who has no place that the door is closing: those in the queue, and those whom nobody
    /// has taken from the kernel yet.
    pub(crate) fn turn_everybody_away(&mut self, context: &mut Context<'_>) {
        self.send_queue_away();
        for _ in 0..MOST_TOLD {
            match self.listener.poll_accept(context) {
                Poll::Ready(Ok((stream, _))) => {
                    add_one(&self.doorway.gate.counters.accepted);
                    self.refuse(stream, Why::Closing);
                }
                Poll::Ready(Err(error)) if is_of_one_connection(&error) => {}
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }

    fn send_queue_away(&mut self) {
        for (stream, _) in self.queue.clear() {
            self.doorway.gate.counters.refused(Why::Closing);
            self.porter.refuse(stream);
        }
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.doorway.gate
    }

    /// Closes the listener. What is left are refused connections that are being seen off.
    pub(crate) fn into_porter(mut self) -> Porter {
        let nobody = Porter::new(self.porter.refusal(), self.doorway.gate.clock.clone());
        std::mem::replace(&mut self.porter, nobody)
    }
}

impl Drop for FrontDoor {
    fn drop(&mut self) {
        self.send_queue_away();
    }
}

/// Whether an error is about one connection, and the next may be well. Errors the network has in store for a
/// connection are given out when it is taken.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::ConnectionRefused
            | Kind::Interrupted
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::TimedOut
    )
}

impl fmt::Debug for FrontDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontDoor").field("listener", &self.listener).finish_non_exhaustive()
    }
}
