//! One connection: reads what is there, answers every complete command of it, sends all answers at once.
//!
//! While replies wait to be taken, further commands are read and answered, so that a client may send many before
//! it reads; but only until [`MOST_UNSENT`] bytes wait. Then it is not read from until it takes some. What `EXEC` runs
//! goes the same way, one command after the other before any that follows, and lets others go first now and then: a
//! client can ask for much with one `EXEC`.
//!
//! First everybody reads, then everybody sends: a connection with replies lets all others of its thread go first that
//! are ready. To send wakes a client, which takes the core or asks for the next thing while others still wait for their
//! first answer; with all replies of a round together it finds many at once, and so do we when it asks again.
//!
//! There is one alarm for each connection, not one for each command: it rings when the client would have been
//! silent for too long, and is set anew if it was not. Half a command is held for a shorter time, which counts from its
//! first byte: who sends the rest in drops cannot make us hold it for longer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::Sleep;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;

use super::command::{Call, Step};
use super::parse::{Parsed, Parser};
use super::reply::Replies;
use super::session::Session;
use super::transaction::Running;
use super::{Bounds, Resp, check};

/// How many bytes of replies wait at most for a client that does not take them.
pub(super) const MOST_UNSENT: usize = 1 << 20;

/// How long a client may take none of the replies that wait for it.
pub(super) const TAKING: Duration = Duration::from_secs(30);

/// How long a client that has asked nothing yet is waited for when the server stops: its first command may be on its way.
const PARTING: Duration = Duration::from_secs(1);

/// How much is read at once, at first and at most.
const LEAST_READ: usize = 4 * 1024;
const MOST_READ: usize = 64 * 1024;

/// A client and what has passed between it and us.
pub(super) struct Connection<'r, I> {
    resp: &'r Resp,
    io: I,
    session: Session,
    /// What came and has not been answered.
    input: Vec<u8>,
    /// How much of it has been answered.
    answered: usize,
    /// How much to read at once.
    chunk: usize,
    parser: Parser,
    replies: Replies,
    /// What `EXEC` has still to run before the next command is looked at.
    running: Option<Running>,
    /// Whether the others have been let go first before these are sent.
    has_let_others: bool,
    /// Whether what was written may still be held back on the way, as by TLS.
    unflushed: bool,
    state: State,
    /// Whether a command has come.
    asked: bool,
    /// When bytes came or went.
    active: Timestamp,
    moved: bool,
    /// When the first bytes of a command came that is not complete yet.
    begun: Option<Timestamp>,
    watch: Watch,
}

/// What the connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Every complete command that came is answered; more may come.
    Open,
    /// Commands that came wait until replies are taken. `last`: no more of them are read.
    Stalled { last: bool },
    /// Nothing is answered any more; what waits is still sent.
    Ending,
}

/// What wakes the connection besides its bytes.
struct Watch {
    closing: watch::Receiver<()>,
    /// Resolves when it closes; gone once it has.
    changed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    alarm: Option<Sleep>,
    /// Whom the two wake.
    waker: Option<Waker>,
}

/// Whether there is something to do.
enum Next {
    Answer,
    Over,
}

impl<'r, I: AsyncRead + AsyncWrite + Unpin> Connection<'r, I> {
    pub(super) fn new(resp: &'r Resp, io: I, id: i64, closing: watch::Receiver<()>) -> Self {
        let mut waiting = closing.clone();
        let changed = async move {
            // That nobody can say so any more is the same.
            let _ = waiting.changed().await;
        };
        Self {
            resp,
            io,
            session: Session::new(id, resp.secret.is_none()),
            input: Vec::new(),
            answered: 0,
            chunk: LEAST_READ,
            parser: Parser::new(resp.bounds.max_request),
            replies: Replies::default(),
            running: None,
            has_let_others: false,
            unflushed: false,
            state: State::Open,
            asked: false,
            active: resp.clock.now(),
            moved: false,
            begun: None,
            watch: Watch { closing, changed: Some(Box::pin(changed)), alarm: None, waker: None },
        }
    }

    pub(super) async fn run(mut self) {
        while let Next::Answer = poll_fn(|context| self.poll_next(context)).await {
            self.answer().await;
        }
        self.say_goodbye().await;
    }

    /// Answers every complete command, as far as there is room for replies.
    async fn answer(&mut self) {
        let mut answered = 0;
        self.answer_all(&mut answered).await;
        // Once for all of them: every thread counts here.
        self.resp.calls.fetch_add(answered, Ordering::Relaxed);
    }

    async fn answer_all(&mut self, answered: &mut u64) {
        let last = matches!(self.state, State::Stalled { last: true });
        loop {
            if self.replies.unsent().len() >= MOST_UNSENT {
                self.state = State::Stalled { last };
                return;
            }
            if self.running.is_some() {
                if self.run_on().await {
                    return self.state = State::Ending;
                }
                continue;
            }
            let bytes = self.input.get(self.answered..).unwrap_or_default();
            match self.parser.parse(bytes, self.session.authenticated) {
                Ok(Parsed::Incomplete) => break,
                Ok(Parsed::Nothing(taken)) => self.answered += taken,
                Ok(Parsed::Command(taken)) => {
                    let Self { resp, session, replies, parser, .. } = self;
                    let command = parser.command(bytes);
                    let step = Call { resp, session, command, replies }.run();
                    self.parser.forget();
                    *answered += 1;
                    self.answered += taken;
                    self.asked = true;
                    if self.finish(step).await {
                        return self.state = State::Ending;
                    }
                }
                Err(error) => {
                    self.replies.error(format_args!("ERR {error}"));
                    return self.state = State::Ending;
                }
            }
        }
        self.state = if last { State::Ending } else { State::Open };
    }

    /// Answers what the store is asked for, and takes up what `EXEC` runs. Answers whether that was the last of it.
    async fn finish(&mut self, step: Step) -> bool {
        match step {
            Step::Done => {}
            Step::Last => return true,
            Step::Ask(admission) => check::render(&admission.await, &mut self.replies),
            Step::Throttle(waiting) => waiting.answer(&mut self.replies).await,
            Step::Run(running) => self.running = Some(running),
        }
        false
    }

    /// Answers the next command of those that `EXEC` runs. Answers whether that was the last of all.
    async fn run_on(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let Some(kept) = running.next() else {
            self.running = None;
            return false;
        };
        if running.begins_another_turn() {
            // Behind those, too, of whom the system has not told yet.
            tokio::task::yield_now().await;
        }
        let before = self.replies.unsent().len();
        let Self { resp, session, replies, .. } = self;
        let step = Call { resp, session, command: kept.command(), replies }.run();
        // None of them runs others: such are never kept themselves.
        let is_last = self.finish(step).await;
        if let Some(running) = &mut self.running {
            running.note(kept.len() + self.replies.unsent().len() - before);
        }
        is_last
    }

    /// Sends and reads until there is something to answer.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if !self.replies.unsent().is_empty() && !std::mem::replace(&mut self.has_let_others, true) {
            // It is its turn again behind all who are ready by now.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.poll_send(context).is_err() {
            return Poll::Ready(Next::Over);
        }
        let unsent = self.replies.unsent().len();
        let is_sent = unsent == 0 && !self.unflushed;
        if let State::Stalled { last } = &mut self.state {
            *last |= self.watch.is_closing();
            if unsent < MOST_UNSENT / 2 {
                return Poll::Ready(Next::Answer);
            }
        }
        if self.state == State::Open && self.asked && self.watch.is_closing() {
            self.state = State::Ending;
        }
        if self.state == State::Open {
            match self.poll_read(context) {
                Poll::Ready(Ok(1..)) => {
                    self.moved = true;
                    return Poll::Ready(Next::Answer);
                }
                // Whoever has nothing more to say may still listen.
                Poll::Ready(Ok(0)) => self.state = State::Ending,
                Poll::Ready(Err(_)) => return Poll::Ready(Next::Over),
                Poll::Pending => {}
            }
        }
        if self.state == State::Ending && is_sent {
            return Poll::Ready(Next::Over);
        }
        self.poll_watch(context, is_sent)
    }

    /// Sends what is there, as far as the client takes it.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Result<(), ()> {
        while !self.replies.unsent().is_empty() {
            match Pin::new(&mut self.io).poll_write(context, self.replies.unsent()) {
                Poll::Ready(Ok(sent @ 1..)) => {
                    self.replies.note_sent(sent);
                    (self.unflushed, self.moved) = (true, true);
                }
                Poll::Ready(_) => return Err(()),
                Poll::Pending => return Ok(()),
            }
        }
        self.has_let_others = false;
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(context)
        {
            self.unflushed = false;
            return flushed.map_err(drop);
        }
        Ok(())
    }

    /// Reads behind what is there; the part that has been answered makes room.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        if self.answered > 0 {
            // What is left, if anything, is the beginning of another command.
            self.begun = None;
        }
        self.input.drain(..self.answered);
        self.answered = 0;
        if self.input.is_empty() && self.input.capacity() > MOST_READ {
            (self.input, self.chunk) = (Vec::new(), LEAST_READ);
        }
        if self.input.capacity() - self.input.len() < self.chunk / 2 {
            self.input.reserve(self.chunk);
        }
        let room = self.input.capacity() - self.input.len();
        let read = pin!(self.io.read_buf(&mut self.input)).poll(context);
        if let Poll::Ready(Ok(read)) = &read
            && *read == room
        {
            self.chunk = (2 * self.chunk).min(MOST_READ);
        }
        read
    }

    /// Lets a client go that has been silent for too long, has taken nothing, or does not end what it began to say.
    fn poll_watch(&mut self, context: &mut Context<'_>, is_sent: bool) -> Poll<Next> {
        let now = self.resp.clock.now();
        if std::mem::take(&mut self.moved) {
            self.active = now;
        }
        let Bounds { idle, whole_command, .. } = self.resp.bounds;
        let longest = match is_sent {
            false => TAKING,
            true if self.watch.is_closing() => PARTING,
            true => idle,
        };
        let mut deadline = self.active + longest.min(idle);
        if self.state == State::Open && !self.input.is_empty() {
            // All that was complete is answered: this is half a command.
            deadline = deadline.min(*self.begun.get_or_insert(now) + whole_command);
        }
        if now >= deadline {
            return Poll::Ready(Next::Over);
        }
        let Watch { changed, alarm, waker, .. } = &mut self.watch;
        let is_known = waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_known {
            *waker = Some(context.waker().clone());
            if changed.as_mut().is_some_and(|changed| changed.as_mut().poll(context).is_ready()) {
                // It may have changed since it was last looked at: look again.
                *changed = None;
                context.waker().wake_by_ref();
            }
        }
        if !is_known || alarm.as_ref().is_none_or(|alarm| alarm.until() > deadline || now >= alarm.until()) {
            let alarm = alarm.insert(self.resp.clock.sleep_until(deadline));
            if Pin::new(alarm).poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Ends the stream as its protocol wants it, if the client goes along.
    async fn say_goodbye(mut self) {
        let mut late = pin!(self.resp.clock.sleep(TAKING));
        poll_fn(|context| match Pin::new(&mut self.io).poll_shutdown(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => late.as_mut().poll(context),
        })
        .await;
    }
}

impl Watch {
    fn is_closing(&self) -> bool {
        self.closing.has_changed().unwrap_or(true)
    }
}
