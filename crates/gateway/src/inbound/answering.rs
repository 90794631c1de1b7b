//! Writing an answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http_body::{Body, Frame};
use sluicegate_door::{Connection, Late};
use sluicegate_http::reply::Brief;
use sluicegate_http1::{announced, write_chunk, write_field, write_last_chunk, write_status_line};
use sluicegate_listen::Stream;

use super::date;
use super::visit::{Asked, Visit};
use super::wire::ClientWire;
use crate::answer::Answer;
use crate::body::AnswerBody;
use crate::exchange::Tunnel;
use crate::turns::Courtesy;
use crate::wire::Wire;

/// How much of answers to requests that came together is put together.
const GATHERED: usize = 16 << 10;

/// How an answer fared.
pub(super) enum Sent {
    /// Well, and another request may follow.
    GoesOn,
    /// Well, and it was the last one; but the client may still be sending what nobody reads.
    Unread,
    /// Well or not: there is nothing more to be done here.
    Over,
    /// Well, and another protocol begins.
    Switched(Box<Tunnel>),
}

/// How an answer's body is told from what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frames {
    /// There is none.
    Nothing,
    /// By its length, of which so much is left.
    Length(u64),
    Chunks,
    /// By the end of the connection.
    UntilClose,
}

/// An answer on its way.
struct Sending {
    frames: Frames,
    goes_on: bool,
    takes_trailers: bool,
    /// Whether all of it has been said.
    has_ended: bool,
    /// Whether it ended as it should.
    is_whole: bool,
    /// Others go first before it is written.
    courtesy: Courtesy,
}

impl Visit {
    /// Sends an answer.
    pub(super) async fn answer(&mut self, mut answer: Box<Answer>, asked: Asked) -> Sent {
        self.client.thread.tally.answered(answer.status);
        let is_closing = self.is_closing();
        answer.settle();
        let is_sole = Arc::strong_count(&self.wire) == 1;
        let sending = Sending::begin(&mut self.wire.lock(), &answer, asked, is_closing, is_sole);
        self.send(sending, answer.body, answer.head.map()).await
    }

    /// Sends a refusal that is ready to be written.
    pub(super) async fn refuse(&mut self, refusal: &Brief, asked: Asked) -> Sent {
        self.client.thread.tally.answered(refusal.status());
        let is_closing = self.is_closing();
        let sending = Sending::refuse(&mut self.wire.lock(), refusal, asked, is_closing);
        self.send(sending, AnswerBody::Own(None), &HeaderMap::new()).await
    }

    fn is_closing(&self) -> bool {
        self.deadlines.is_closing() || self.closing.has_changed().unwrap_or(true)
    }

    /// Sends what follows a head, and all that waits to be written.
    async fn send(&mut self, mut sending: Sending, mut body: AnswerBody, head: &HeaderMap) -> Sent {
        let is_sent = poll_fn(|context| self.poll_sent(&mut sending, &mut body, head, context)).await;
        match body {
            AnswerBody::Tunnel(tunnel) if is_sent => Sent::Switched(tunnel),
            _ if !is_sent || !sending.is_whole => Sent::Over,
            _ if sending.goes_on => Sent::GoesOn,
            _ => {
                let wire = self.wire.lock();
                if wire.is_read() && wire.bytes.input.is_empty() { Sent::Over } else { Sent::Unread }
            }
        }
    }

    /// Goes on sending. Ready when all has gone, with whether the client is still there.
    fn poll_sent(
        &mut self,
        sending: &mut Sending,
        body: &mut AnswerBody,
        head: &HeaderMap,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        loop {
            let mut waits = false;
            while !sending.has_ended && self.wire.lock().bytes.takes_more() {
                // The body may be reading the request's: it is polled without the wire in hand.
                match Pin::new(&mut *body).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        let bytes = &mut self.wire.lock().bytes;
                        sending.part(frame, bytes, head);
                        if body.is_end_stream() {
                            sending.end(bytes, None);
                        }
                    }
                    Poll::Ready(None) => sending.end(&mut self.wire.lock().bytes, None),
                    Poll::Ready(Some(Err(_))) => {
                        sending.break_off();
                        if sending.frames == Frames::UntilClose {
                            // The end of the connection would be the end of the answer: it must not look like one.
                            self.wire.lock().reset_when_dropped();
                        }
                    }
                    Poll::Pending => {
                        waits = true;
                        break;
                    }
                }
            }
            if sending.has_ended && !matches!(body, AnswerBody::Tunnel(_)) {
                // What it holds is given back before the client can know that it has ended, and asks again.
                *body = AnswerBody::Own(None);
            }
            let bytes = &mut self.wire.lock().bytes;
            if sending.has_ended && sending.goes_on && !bytes.input.is_empty() && bytes.waiting() < GATHERED {
                // More was asked already: what is answered to that goes along.
                return Poll::Ready(true);
            }
            let before = bytes.waiting();
            ready!(sending.courtesy.poll_done(context));
            match bytes.poll_flush(context) {
                Poll::Ready(Ok(())) => {
                    self.deadlines.reads();
                    if sending.has_ended {
                        return Poll::Ready(true);
                    }
                    if waits {
                        break;
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => {
                    if bytes.waiting() < before {
                        self.deadlines.reads();
                    }
                    return self.deadlines.poll_unread(context).map(|()| {
                        self.host.closed_late(Late::Reading);
                        false
                    });
                }
            }
        }
        self.poll_gone(context).map(|()| false)
    }
}

impl Sending {
    /// Writes the head. `is_sole`: nobody else reads the request's body.
    fn begin(wire: &mut ClientWire, answer: &Answer, asked: Asked, is_closing: bool, is_sole: bool) -> Self {
        let status = answer.status;
        let switches = status == StatusCode::SWITCHING_PROTOCOLS;
        let has_body = !asked.is_head
            && !status.is_informational()
            && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        // Who still sends the request on needs all of it: the rest is not thrown away then.
        let is_over = wire.is_read() || (is_sole && wire.skip());
        let mut goes_on = asked.goes_on && !is_closing && !switches && is_over;
        let output = &mut wire.bytes.output;
        write_status_line(output, status);
        let (mut length, mut has_date) = (None, false);
        if let Some(lines) = answer.head.lines() {
            lines.write(output);
            (length, has_date) = (lines.length(), lines.has_date());
        }
        for (name, value) in answer.head.map() {
            match *name {
                CONTENT_LENGTH => {
                    // A length is told once, and only where there is one.
                    let known = length.replace(number(value));
                    if known.is_some() || status == StatusCode::NO_CONTENT || switches {
                        continue;
                    }
                }
                TRANSFER_ENCODING => continue,
                CONNECTION if !switches => {
                    goes_on &= !value.as_bytes().eq_ignore_ascii_case(b"close");
                    continue;
                }
                DATE => has_date = true,
                _ => {}
            }
            write_field(output, name, value.as_bytes());
        }
        if let Some(fields) = &answer.fields {
            fields.write_lines(output);
        }
        let frames = match (has_body, length, answer.body.size_hint().exact()) {
            (false, ..) => Frames::Nothing,
            (true, Some(length), _) => Frames::Length(length),
            (true, None, Some(length)) => {
                write_field(output, &CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
                Frames::Length(length)
            }
            (true, None, None) if asked.is_1_1 => {
                write_field(output, &TRANSFER_ENCODING, b"chunked");
                Frames::Chunks
            }
            (true, None, None) => {
                goes_on = false;
                Frames::UntilClose
            }
        };
        if !switches {
            write_connection(output, asked, goes_on);
            if !has_date {
                date::write(output);
            }
        }
        output.extend_from_slice(b"\r\n");
        let takes_trailers = asked.takes_trailers && frames == Frames::Chunks;
        let has_ended = matches!(frames, Frames::Nothing | Frames::Length(0));
        Self { frames, goes_on, takes_trailers, has_ended, is_whole: true, courtesy: Courtesy::default() }
    }

    /// Writes all of a refusal.
    fn refuse(wire: &mut ClientWire, refusal: &Brief, asked: Asked, is_closing: bool) -> Self {
        let goes_on = asked.goes_on && !is_closing && wire.skip();
        let output = &mut wire.bytes.output;
        write_status_line(output, refusal.status());
        output.extend_from_slice(refusal.lines());
        write_field(output, &CONTENT_LENGTH, itoa::Buffer::new().format(refusal.body().len()).as_bytes());
        write_connection(output, asked, goes_on);
        date::write(output);
        output.extend_from_slice(b"\r\n");
        if !asked.is_head {
            output.extend_from_slice(refusal.body());
        }
        Self {
            frames: Frames::Nothing,
            goes_on,
            takes_trailers: false,
            has_ended: true,
            is_whole: true,
            courtesy: Courtesy::default(),
        }
    }

    fn part(&mut self, frame: Frame<Bytes>, bytes: &mut Wire<Stream<Connection>>, head: &HeaderMap) {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                if let (true, Ok(trailers)) = (self.takes_trailers, frame.into_trailers()) {
                    self.end(bytes, Some(&announced(head, trailers)));
                }
                return;
            }
        };
        match &mut self.frames {
            Frames::Nothing => {}
            Frames::Length(left) => match left.checked_sub(data.len() as u64) {
                Some(rest) => {
                    *left = rest;
                    bytes.push(data, b"");
                }
                None => self.break_off(),
            },
            // A chunk of nothing would be the last.
            Frames::Chunks if data.is_empty() => {}
            Frames::Chunks => {
                write_chunk(&mut bytes.output, data.len());
                bytes.push(data, b"\r\n");
            }
            Frames::UntilClose => bytes.push(data, b""),
        }
    }

    fn end(&mut self, bytes: &mut Wire<Stream<Connection>>, trailers: Option<&HeaderMap>) {
        if self.has_ended {
            return;
        }
        match self.frames {
            // Behind what still waits to be written: when that has gone, the body will say again that it has ended.
            Frames::Chunks if !bytes.takes_more() => return,
            Frames::Chunks => write_last_chunk(&mut bytes.output, trailers),
            Frames::Length(1..) => return self.break_off(),
            _ => {}
        }
        self.has_ended = true;
    }

    /// Nothing more comes, and the client must not take it for the end.
    const fn break_off(&mut self) {
        (self.has_ended, self.is_whole, self.goes_on) = (true, false, false);
    }
}

/// Tells what becomes of the connection, where the client cannot know.
fn write_connection(output: &mut Vec<u8>, asked: Asked, goes_on: bool) {
    if !goes_on {
        write_field(output, &CONNECTION, b"close");
    } else if !asked.is_1_1 {
        write_field(output, &CONNECTION, b"keep-alive");
    }
}

/// A length that was read as one before.
fn number(value: &HeaderValue) -> u64 {
    value.to_str().ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
