//! Timing of paced bodies; everything else remaining unchanged.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Full, StreamBody};
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::{Request, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_http_adapter::PacedBody;

/// A body with these frames, all ready.
struct Frames(VecDeque<Result<Frame<Bytes>, &'static str>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

fn sluice(rate: u64, burst: u64) -> (Sluice, ManualClock) {
    let clock = ManualClock::new();
    let limit = Limit::bandwidth(Rate::per_second(rate).unwrap(), burst).unwrap();
    (Sluice::builder().rule(Rule::new("download", [limit])).clock(clock.clone()).build().unwrap(), clock)
}

fn paced<B>(sluice: &Sluice, body: B) -> Pin<Box<PacedBody<B>>> {
    Box::pin(PacedBody::new(body, sluice.decide(&Request::new("GET", "/")).meters()))
}

fn poll<B: Body<Data = Bytes>>(body: &mut Pin<Box<PacedBody<B>>>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
    body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// Bytes of all frames that are ready.
fn data<B: Body<Data = Bytes, Error: std::fmt::Debug>>(body: &mut Pin<Box<PacedBody<B>>>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Poll::Ready(Some(frame)) = poll(body) {
        let part = frame.unwrap().into_data().unwrap();
        assert!(part.len() <= 16 << 10);
        all.extend_from_slice(&part);
    }
    all
}

fn letters(count: usize) -> Bytes {
    (0..count).map(|nth| b'a' + u8::try_from(nth % 26).unwrap()).collect()
}

#[test]
fn bytes_pass_at_the_rate_and_in_order() {
    let (sluice, clock) = sluice(10_000, 30_000);
    let whole = letters(50_000);
    let mut body = paced(&sluice, Full::new(whole.clone()));
    assert_eq!(body.size_hint().exact(), Some(50_000));
    let mut got = data(&mut body);
    assert_eq!(got.len(), 30_000);
    assert_eq!(body.size_hint().exact(), Some(20_000));
    assert!(!body.is_end_stream(), "the inner body has ended, the paced body has not");
    let start = clock.now();
    while !body.is_end_stream() {
        clock.set(clock.next_timer().unwrap());
        got.extend(data(&mut body));
        let max = 30_000 + usize::try_from((clock.now() - start).as_micros() / 100).unwrap();
        assert!(got.len() <= max && got.len() + 500 >= max);
    }
    assert_eq!((clock.now() - start, got), (Duration::from_secs(2), whole.to_vec()));
    assert!(matches!(poll(&mut body), Poll::Ready(None)));
    assert_eq!((clock.pending_timers(), sluice.counts()[0].waiting), (0, 0));
}

#[test]
fn two_bodies_share_the_rate() {
    let (sluice, clock) = sluice(1_000, 1_000);
    let mut bodies = [paced(&sluice, Full::new(letters(9_000))), paced(&sluice, Full::new(letters(9_000)))];
    let mut got = bodies.each_mut().map(|body| data(body).len());
    assert_eq!(got, [1_000, 0]);
    for _ in 0..400 {
        clock.advance(Duration::from_millis(10));
        // Polled in either order.
        for nth in [0, 1, 0] {
            got[nth] += data(&mut bodies[nth]).len();
        }
    }
    assert_eq!(got[0] + got[1], 5_000);
    assert!((got[0] - 1_000).abs_diff(got[1]) <= 50, "{got:?}");
}

#[test]
fn trailers_errors_and_empty_frames_are_not_paced() {
    let (sluice, clock) = sluice(1, 3);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [
        Ok(Frame::data(Bytes::from_static(b"ab"))),
        Ok(Frame::data(Bytes::new())),
        Ok(Frame::data(Bytes::from_static(b"cde"))),
        Ok(Frame::trailers(trailers.clone())),
        Err("cut off"),
    ];
    let mut body = paced(&sluice, Frames(frames.into()));
    let mut next = || match poll(&mut body) {
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => format!("{:?}", data.to_vec()),
            Err(frame) => format!("{:?}", frame.into_trailers().unwrap()),
        },
        Poll::Ready(Some(Err(error))) => error.to_owned(),
        Poll::Ready(None) => "end".to_owned(),
        Poll::Pending => "pending".to_owned(),
    };
    assert_eq!([next(), next(), next(), next()], ["[97, 98]", "[]", "[99]", "pending"]);
    clock.advance(Duration::from_secs(2));
    assert_eq!([next(), next()], ["[100]", "[101]"]);
    assert_eq!([next(), next(), next()], [format!("{trailers:?}"), "cut off".to_owned(), "end".to_owned()]);
}

#[test]
fn a_dropped_body_consumes_only_sent_bytes() {
    let (sluice, clock) = sluice(1_000, 1_000);
    let mut dropped = paced(&sluice, Full::new(letters(9_000)));
    assert_eq!(data(&mut dropped).len(), 1_000);
    let mut remaining = paced(&sluice, Full::new(letters(9_000)));
    assert_eq!(data(&mut remaining).len(), 0);
    drop(dropped);
    clock.advance(Duration::from_secs(1));
    assert_eq!(data(&mut remaining).len(), 1_000);
    assert_eq!(sluice.counts()[0].bytes, 2_000);
    drop(remaining);
    assert_eq!((clock.pending_timers(), sluice.counts()[0].waiting), (0, 0));
}

#[test]
fn unknown_length_is_preserved() {
    let (sluice, _clock) = sluice(1, 2);
    let frame: Result<_, Infallible> = Ok(Frame::data(letters(5)));
    let mut body = paced(&sluice, StreamBody::new(Once(Some(frame))));
    assert_eq!(hint(&body.size_hint()), (0, None));
    assert_eq!(data(&mut body).len(), 2);
    assert_eq!(hint(&body.size_hint()), (3, None));
}

fn hint(hint: &SizeHint) -> (u64, Option<u64>) {
    (hint.lower(), hint.upper())
}

/// A stream of one item.
struct Once<T>(Option<T>);

impl<T: Unpin> futures_core::Stream for Once<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<T>> {
        Poll::Ready(self.0.take())
    }
}
