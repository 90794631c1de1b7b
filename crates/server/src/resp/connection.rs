//! One RESP connection: reads input, runs every complete command and sends all replies together.
//!
//! While replies wait to be sent, further commands are read and run, so that clients can pipeline, but only up to
//! [`MAX_UNSENT_BYTES`] of unsent replies. Then reading stops until the client reads some. The commands of an
//! `EXEC` run the same way, one after the other before any that follows, and yield from time to time: one `EXEC`
//! can demand much work.
//!
//! Reads come before writes: a connection with replies yields once to all other ready connections of its thread.
//! A write wakes a client, which takes the core or sends the next command while others still wait for their first
//! reply. If the replies of a round go out together, the client finds many at once, and so does the server on the
//! next read.
//!
//! There is one timer per connection, not per command: it fires at the idle timeout and is rearmed after
//! activity. A partial command has a shorter timeout, counted from its first byte, so that trickling bytes cannot
//! extend it.
//!
//! Timer and shutdown notification are those of `sluicegate-net`. The deadlines are not: they concern commands and
//! replies, which overlap, while an HTTP/1 connection either reads a head or writes a response.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_net::{LazyTimer, ShutdownSignal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::command::{CommandContext, CommandResult};
use super::parse::{ParseStatus, RespParser};
use super::reply::ReplyBuffer;
use super::session::RespSession;
use super::transaction::RunningTransaction;
use super::{Resp, RespLimits, check};

/// Maximum number of unsent reply bytes per connection.
pub(super) const MAX_UNSENT_BYTES: usize = 1 << 20;

/// Time after which a client that reads no replies is disconnected.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time a new client has during shutdown to send its first command, which may be in flight.
const FIRST_COMMAND_GRACE: Duration = Duration::from_secs(1);

/// Minimum and initial number of bytes per read; the maximum follows.
const MIN_READ_BYTES: usize = 4 * 1024;
const MAX_READ_BYTES: usize = 64 * 1024;

/// A client connection and its state.
pub(super) struct RespConnection<'r, I> {
    resp: &'r Resp,
    io: I,
    session: RespSession,
    /// Input that has not been processed.
    input: Vec<u8>,
    /// Number of input bytes already processed.
    consumed: usize,
    /// Number of bytes per read.
    read_size: usize,
    parser: RespParser,
    replies: ReplyBuffer,
    /// The transaction whose commands `EXEC` still has to run.
    transaction: Option<RunningTransaction>,
    /// Set when the connection has yielded before sending the current replies.
    has_yielded: bool,
    /// Set when written bytes may still be buffered, as by TLS.
    unflushed: bool,
    state: RespState,
    /// Set once a command was received.
    has_command: bool,
    /// Time of the last read or write.
    last_active: Timestamp,
    had_io: bool,
    /// Arrival time of the first bytes of a partial command.
    command_started: Option<Timestamp>,
    closing: watch::Receiver<()>,
    shutdown: ShutdownSignal<'r>,
    is_closing: bool,
    timer: LazyTimer,
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RespState {
    /// Every complete command has a reply; more may arrive.
    Open,
    /// Received commands wait until replies are sent. If `last` is set, no more are read.
    Stalled { last: bool },
    /// No further command runs; remaining replies are sent.
    Ending,
}

/// The next action of the connection loop.
enum NextAction {
    Process,
    Close,
}

impl<'r, I: AsyncRead + AsyncWrite + Unpin> RespConnection<'r, I> {
    pub(super) fn new(
        resp: &'r Resp,
        io: I,
        id: i64,
        closing: watch::Receiver<()>,
        shutdown: ShutdownSignal<'r>,
    ) -> Self {
        Self {
            resp,
            io,
            session: RespSession::new(id, resp.secret.is_none()),
            input: Vec::new(),
            consumed: 0,
            read_size: MIN_READ_BYTES,
            parser: RespParser::new(resp.limits.max_request_size),
            replies: ReplyBuffer::default(),
            transaction: None,
            has_yielded: false,
            unflushed: false,
            state: RespState::Open,
            has_command: false,
            last_active: resp.clock.now(),
            had_io: false,
            command_started: None,
            closing,
            shutdown,
            is_closing: false,
            timer: LazyTimer::new(resp.clock.clone()),
        }
    }

    pub(super) async fn run(mut self) {
        while let NextAction::Process = poll_fn(|context| self.poll_next(context)).await {
            self.process_commands().await;
        }
        self.shut_down().await;
    }

    /// Runs every complete command while there is room for replies.
    async fn process_commands(&mut self) {
        let mut handled = 0;
        self.process_input(&mut handled).await;
        // One addition for all commands: the counter is shared by all threads.
        self.resp.calls.fetch_add(handled, Ordering::Relaxed);
    }

    async fn process_input(&mut self, handled: &mut u64) {
        let last = matches!(self.state, RespState::Stalled { last: true });
        loop {
            if self.replies.unsent().len() >= MAX_UNSENT_BYTES {
                self.state = RespState::Stalled { last };
                return;
            }
            if self.transaction.is_some() {
                if self.run_transaction_command().await {
                    return self.state = RespState::Ending;
                }
                continue;
            }
            let bytes = self.input.get(self.consumed..).unwrap_or_default();
            match self.parser.parse(bytes, self.session.authenticated) {
                Ok(ParseStatus::Incomplete) => break,
                Ok(ParseStatus::Empty(taken)) => self.consumed += taken,
                Ok(ParseStatus::Command(taken)) => {
                    let Self { resp, session, replies, parser, .. } = self;
                    let command = parser.command(bytes);
                    let result = CommandContext { resp, session, command, replies }.run();
                    self.parser.reset();
                    *handled += 1;
                    self.consumed += taken;
                    self.has_command = true;
                    if self.complete(result).await {
                        return self.state = RespState::Ending;
                    }
                }
                Err(error) => {
                    self.replies.error(format_args!("ERR {error}"));
                    return self.state = RespState::Ending;
                }
            }
        }
        self.state = if last { RespState::Ending } else { RespState::Open };
    }

    /// Awaits a pending store decision or starts a transaction. Returns true if the connection is to close.
    async fn complete(&mut self, result: CommandResult) -> bool {
        match result {
            CommandResult::Done => {}
            CommandResult::Close => return true,
            CommandResult::PendingCheck(admission) => check::render(&admission.await, &mut self.replies),
            CommandResult::PendingThrottle(pending) => pending.finish(&mut self.replies).await,
            CommandResult::RunTransaction(running) => self.transaction = Some(running),
        }
        false
    }

    /// Runs the next command of a transaction. Returns true if the connection is to close.
    async fn run_transaction_command(&mut self) -> bool {
        let Some(running) = &mut self.transaction else { return false };
        let Some(queued) = running.next() else {
            self.transaction = None;
            return false;
        };
        if running.should_yield() {
            // Also yields to sockets whose events have not been polled yet.
            tokio::task::yield_now().await;
        }
        let before = self.replies.unsent().len();
        let Self { resp, session, replies, .. } = self;
        let result = CommandContext { resp, session, command: queued.command(), replies }.run();
        // Queued commands never start a transaction.
        let is_last = self.complete(result).await;
        if let Some(running) = &mut self.transaction {
            running.record(queued.len() + self.replies.unsent().len() - before);
        }
        is_last
    }

    /// Sends and reads until there is a command to process.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<NextAction> {
        self.is_closing = self.is_closing || self.shutdown.poll(&self.closing, context);
        if !self.replies.unsent().is_empty() && !std::mem::replace(&mut self.has_yielded, true) {
            // Scheduled again after all tasks that are ready now.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.poll_send(context).is_err() {
            return Poll::Ready(NextAction::Close);
        }
        let unsent = self.replies.unsent().len();
        let is_sent = unsent == 0 && !self.unflushed;
        if let RespState::Stalled { last } = &mut self.state {
            *last |= self.is_closing;
            if unsent < MAX_UNSENT_BYTES / 2 {
                return Poll::Ready(NextAction::Process);
            }
        }
        if self.state == RespState::Open && self.has_command && self.is_closing {
            self.state = RespState::Ending;
        }
        if self.state == RespState::Open {
            match self.poll_read(context) {
                Poll::Ready(Ok(1..)) => {
                    self.had_io = true;
                    return Poll::Ready(NextAction::Process);
                }
                // A half-closed client may still read replies.
                Poll::Ready(Ok(0)) => self.state = RespState::Ending,
                Poll::Ready(Err(_)) => return Poll::Ready(NextAction::Close),
                Poll::Pending => {}
            }
        }
        if self.state == RespState::Ending && is_sent {
            return Poll::Ready(NextAction::Close);
        }
        self.poll_timeouts(context, is_sent)
    }

    /// Sends as many unsent replies as the socket accepts.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Result<(), ()> {
        while !self.replies.unsent().is_empty() {
            match Pin::new(&mut self.io).poll_write(context, self.replies.unsent()) {
                Poll::Ready(Ok(sent @ 1..)) => {
                    self.replies.mark_sent(sent);
                    (self.unflushed, self.had_io) = (true, true);
                }
                Poll::Ready(_) => return Err(()),
                Poll::Pending => return Ok(()),
            }
        }
        self.has_yielded = false;
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(context)
        {
            self.unflushed = false;
            return flushed.map_err(drop);
        }
        Ok(())
    }

    /// Reads after the existing input; processed bytes are removed first.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        if self.consumed > 0 {
            // Any remaining bytes belong to another command.
            self.command_started = None;
        }
        self.input.drain(..self.consumed);
        self.consumed = 0;
        if self.input.is_empty() && self.input.capacity() > MAX_READ_BYTES {
            (self.input, self.read_size) = (Vec::new(), MIN_READ_BYTES);
        }
        if self.input.capacity() - self.input.len() < self.read_size / 2 {
            self.input.reserve(self.read_size);
        }
        let room = self.input.capacity() - self.input.len();
        let read = pin!(self.io.read_buf(&mut self.input)).poll(context);
        if let Poll::Ready(Ok(read)) = &read
            && *read == room
        {
            self.read_size = (2 * self.read_size).min(MAX_READ_BYTES);
        }
        read
    }

    /// Closes the connection if the client is idle, reads no replies, or does not complete a command in time.
    fn poll_timeouts(&mut self, context: &mut Context<'_>, is_sent: bool) -> Poll<NextAction> {
        let now = self.resp.clock.now();
        if std::mem::take(&mut self.had_io) {
            self.last_active = now;
        }
        let RespLimits { idle_timeout, command_timeout, .. } = self.resp.limits;
        let timeout = match is_sent {
            false => WRITE_TIMEOUT,
            true if self.is_closing => FIRST_COMMAND_GRACE,
            true => idle_timeout,
        };
        let mut deadline = self.last_active + timeout.min(idle_timeout);
        if self.state == RespState::Open && !self.input.is_empty() {
            // All complete commands are processed: the rest is a partial command.
            deadline = deadline.min(*self.command_started.get_or_insert(now) + command_timeout);
        }
        self.timer.poll_due_at(now, deadline, context).map(|()| NextAction::Close)
    }

    /// Shuts the stream down, within the write timeout. It does not linger: as in Redis, a client that continues to
    /// send after `QUIT` or a protocol error may see a reset instead of the last reply.
    async fn shut_down(mut self) {
        let deadline = self.timer.now() + WRITE_TIMEOUT;
        // An error means that the client is gone.
        drop(self.timer.within(deadline, self.io.shutdown()).await);
    }
}
