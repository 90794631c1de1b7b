//! Response writer for HTTP/1 client connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http_body::{Body, Frame};
use sluicegate_http_adapter::reply::RawRefusal;
use sluicegate_http1::{filter_trailers, write_chunk, write_field, write_last_chunk, write_status_line};
use sluicegate_net::{Connection, MaybeTlsStream, TimeoutKind};

use super::connection::{Http1Connection, RequestTraits};
use super::date;
use crate::buffered_io::BufferedIo;
use crate::client_io::ClientIo;
use crate::response::{ProxyResponse, ResponseBody, Tunnel};
use crate::yield_once::YieldOnce;

/// Maximum size of coalesced responses to pipelined requests.
const MAX_COALESCED_BYTES: usize = 16 << 10;

/// Result of writing a response.
pub(super) enum WriteResult {
    /// Complete; another request may follow.
    KeepAlive,
    /// Complete and the last one, but the client may still be sending data that is not read.
    Linger,
    /// The connection is finished, after success or failure.
    Close,
    /// Complete; another protocol follows.
    Upgraded(Box<Tunnel>),
}

/// Framing of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFraming {
    /// No body.
    Empty,
    /// By `Content-Length`; the bytes remaining.
    Length(u64),
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// A response that is being written.
struct ResponseWriter {
    framing: BodyFraming,
    keep_alive: bool,
    accepts_trailers: bool,
    /// Set once the whole response was queued for writing.
    is_finished: bool,
    /// Cleared if the response was cut short.
    is_complete: bool,
    /// Yields to other tasks once before writing.
    yield_once: YieldOnce,
}

impl Http1Connection {
    /// Writes a response.
    pub(super) async fn write_response(
        &mut self,
        mut response: Box<ProxyResponse>,
        request: RequestTraits,
    ) -> WriteResult {
        self.client.worker.counters.record_response(response.status);
        let is_closing = self.is_closing();
        response.merge_rate_limit_fields();
        let is_sole = Arc::strong_count(&self.io) == 1;
        let writer = ResponseWriter::start(&mut self.io.lock(), &response, request, is_closing, is_sole);
        self.write_body(writer, response.body, response.head.map()).await
    }

    /// Writes a preformatted refusal.
    pub(super) async fn write_refusal(&mut self, refusal: &RawRefusal, request: RequestTraits) -> WriteResult {
        self.client.worker.counters.record_response(refusal.status());
        let is_closing = self.is_closing();
        let writer = ResponseWriter::refusal(&mut self.io.lock(), refusal, request, is_closing);
        self.write_body(writer, ResponseBody::Local(None), &HeaderMap::new()).await
    }

    fn is_closing(&self) -> bool {
        self.timeouts.is_closing() || self.shutdown.has_changed().unwrap_or(true)
    }

    /// Writes the body after a head, and everything that is pending.
    async fn write_body(
        &mut self,
        mut writer: ResponseWriter,
        mut body: ResponseBody,
        head: &HeaderMap,
    ) -> WriteResult {
        let is_sent = poll_fn(|context| self.poll_write_body(&mut writer, &mut body, head, context)).await;
        match body {
            ResponseBody::Tunnel(tunnel) if is_sent => WriteResult::Upgraded(tunnel),
            _ if !is_sent || !writer.is_complete => WriteResult::Close,
            _ if writer.keep_alive => WriteResult::KeepAlive,
            _ => {
                let client_io = self.io.lock();
                if client_io.is_request_read() && client_io.buffered.input.is_empty() {
                    WriteResult::Close
                } else {
                    WriteResult::Linger
                }
            }
        }
    }

    /// Continues writing. Ready when everything was written (true) or the client is gone (false).
    fn poll_write_body(
        &mut self,
        writer: &mut ResponseWriter,
        body: &mut ResponseBody,
        head: &HeaderMap,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        loop {
            let mut is_pending = false;
            while !writer.is_finished && self.io.lock().buffered.has_capacity() {
                // Polling the body may read the request body, which takes the lock.
                match Pin::new(&mut *body).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        let bytes = &mut self.io.lock().buffered;
                        writer.push_frame(frame, bytes, head);
                        if body.is_end_stream() {
                            writer.finish(bytes, None);
                        }
                    }
                    Poll::Ready(None) => writer.finish(&mut self.io.lock().buffered, None),
                    Poll::Ready(Some(Err(_))) => {
                        writer.abort();
                        if writer.framing == BodyFraming::UntilClose {
                            // The end of the connection would look like the end of the response, so it is reset instead.
                            self.io.lock().reset_on_drop();
                        }
                    }
                    Poll::Pending => {
                        is_pending = true;
                        break;
                    }
                }
            }
            if writer.is_finished && !matches!(body, ResponseBody::Tunnel(_)) {
                // Release permits before the client can see the end of the response and send its next request.
                *body = ResponseBody::Local(None);
            }
            let bytes = &mut self.io.lock().buffered;
            if writer.is_finished
                && writer.keep_alive
                && !bytes.input.is_empty()
                && bytes.pending_bytes() < MAX_COALESCED_BYTES
            {
                // A pipelined request is already buffered: its response is written together with this one.
                return Poll::Ready(true);
            }
            let before = bytes.pending_bytes();
            ready!(writer.yield_once.poll_yield(context));
            match bytes.poll_flush(context) {
                Poll::Ready(Ok(())) => {
                    self.timeouts.write_progressed();
                    if writer.is_finished {
                        return Poll::Ready(true);
                    }
                    if is_pending {
                        break;
                    }
                }
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => {
                    if bytes.pending_bytes() < before {
                        self.timeouts.write_progressed();
                    }
                    return self.timeouts.poll_write_stalled(context).map(|()| {
                        self.server.record_timeout(TimeoutKind::Write);
                        false
                    });
                }
            }
        }
        self.poll_disconnect(context).map(|()| false)
    }
}

impl ResponseWriter {
    /// Writes the head. `is_sole`: the request body has no other reader.
    fn start(
        io: &mut ClientIo,
        response: &ProxyResponse,
        request: RequestTraits,
        is_closing: bool,
        is_sole: bool,
    ) -> Self {
        let status = response.status;
        let switches = status == StatusCode::SWITCHING_PROTOCOLS;
        let has_body = !request.is_head
            && !status.is_informational()
            && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        // A task that still forwards the request needs the remaining body, so it is not skipped.
        let is_request_over = io.is_request_read() || (is_sole && io.skip_body());
        let mut keep_alive = request.keep_alive && !is_closing && !switches && is_request_over;
        let output = &mut io.buffered.output;
        write_status_line(output, status);
        let (mut length, mut has_date) = (None, false);
        if let Some(raw_headers) = response.head.raw() {
            raw_headers.write(output);
            (length, has_date) = (raw_headers.length(), raw_headers.has_date());
        }
        for (name, value) in response.head.map() {
            match *name {
                CONTENT_LENGTH => {
                    // The length is written once, and only if it is allowed.
                    let known = length.replace(parse_length(value));
                    if known.is_some() || status == StatusCode::NO_CONTENT || switches {
                        continue;
                    }
                }
                TRANSFER_ENCODING => continue,
                CONNECTION if !switches => {
                    keep_alive &= !value.as_bytes().eq_ignore_ascii_case(b"close");
                    continue;
                }
                DATE => has_date = true,
                _ => {}
            }
            write_field(output, name, value.as_bytes());
        }
        if let Some(fields) = &response.rate_limit_fields {
            fields.write_lines(output);
        }
        let framing = match (has_body, length, response.body.size_hint().exact()) {
            (false, ..) => BodyFraming::Empty,
            (true, Some(length), _) => BodyFraming::Length(length),
            (true, None, Some(length)) => {
                write_field(output, &CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
                BodyFraming::Length(length)
            }
            (true, None, None) if request.is_http11 => {
                write_field(output, &TRANSFER_ENCODING, b"chunked");
                BodyFraming::Chunked
            }
            (true, None, None) => {
                keep_alive = false;
                BodyFraming::UntilClose
            }
        };
        if !switches {
            write_connection(output, request, keep_alive);
            if !has_date {
                date::write(output);
            }
        }
        output.extend_from_slice(b"\r\n");
        let accepts_trailers = request.accepts_trailers && framing == BodyFraming::Chunked;
        let is_finished = matches!(framing, BodyFraming::Empty | BodyFraming::Length(0));
        Self { framing, keep_alive, accepts_trailers, is_finished, is_complete: true, yield_once: YieldOnce::default() }
    }

    /// Writes a complete refusal.
    fn refusal(io: &mut ClientIo, refusal: &RawRefusal, request: RequestTraits, is_closing: bool) -> Self {
        let keep_alive = request.keep_alive && !is_closing && io.skip_body();
        let output = &mut io.buffered.output;
        write_status_line(output, refusal.status());
        output.extend_from_slice(refusal.lines());
        write_field(output, &CONTENT_LENGTH, itoa::Buffer::new().format(refusal.body().len()).as_bytes());
        write_connection(output, request, keep_alive);
        date::write(output);
        output.extend_from_slice(b"\r\n");
        if !request.is_head {
            output.extend_from_slice(refusal.body());
        }
        Self {
            framing: BodyFraming::Empty,
            keep_alive,
            accepts_trailers: false,
            is_finished: true,
            is_complete: true,
            yield_once: YieldOnce::default(),
        }
    }

    fn push_frame(&mut self, frame: Frame<Bytes>, io: &mut BufferedIo<MaybeTlsStream<Connection>>, head: &HeaderMap) {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                if let (true, Ok(trailers)) = (self.accepts_trailers, frame.into_trailers()) {
                    self.finish(io, Some(&filter_trailers(head, trailers)));
                }
                return;
            }
        };
        match &mut self.framing {
            BodyFraming::Empty => {}
            BodyFraming::Length(remaining) => match remaining.checked_sub(data.len() as u64) {
                Some(remaining_after) => {
                    *remaining = remaining_after;
                    io.push(data, b"");
                }
                None => self.abort(),
            },
            // An empty chunk would end the body.
            BodyFraming::Chunked if data.is_empty() => {}
            BodyFraming::Chunked => {
                write_chunk(&mut io.output, data.len());
                io.push(data, b"\r\n");
            }
            BodyFraming::UntilClose => io.push(data, b""),
        }
    }

    fn finish(&mut self, io: &mut BufferedIo<MaybeTlsStream<Connection>>, trailers: Option<&HeaderMap>) {
        if self.is_finished {
            return;
        }
        match self.framing {
            // Output is still pending: the body reports its end again once that was written.
            BodyFraming::Chunked if !io.has_capacity() => return,
            BodyFraming::Chunked => write_last_chunk(&mut io.output, trailers),
            BodyFraming::Length(1..) => return self.abort(),
            _ => {}
        }
        self.is_finished = true;
    }

    /// Aborts the response; the client must not take this for its end.
    const fn abort(&mut self) {
        (self.is_finished, self.is_complete, self.keep_alive) = (true, false, false);
    }
}

/// Writes `Connection`, unless the default of the HTTP version applies.
fn write_connection(output: &mut Vec<u8>, request: RequestTraits, keep_alive: bool) {
    if !keep_alive {
        write_field(output, &CONNECTION, b"close");
    } else if !request.is_http11 {
        write_field(output, &CONNECTION, b"keep-alive");
    }
}

/// Parses a length that was validated before.
fn parse_length(value: &HeaderValue) -> u64 {
    value.to_str().ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
