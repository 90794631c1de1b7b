//! Bandwidth-limited bodies.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate_engine::sluice::{ByteTicket, Meters};

/// Maximum chunk size, so that bodies sharing a rate alternate.
const MAX_CHUNK_BYTES: usize = 16 << 10;

pin_project! {
    /// A body paced by bandwidth limits. Bytes within the limits pass at once; the others wait, and the inner
    /// body is not polled meanwhile. Trailers are not delayed.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::{BodyExt, Full};
    /// use sluicegate_engine::{Limit, Rate, Sluice, rule::{Request, Rule}};
    /// use sluicegate_http_adapter::PacedBody;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let download = Limit::bandwidth(Rate::per_second(1_000_000)?, 1_000)?;
    /// let sluice = Sluice::builder().rule(Rule::new("download", [download])).build()?;
    /// let outcome = sluice.decide(&Request::new("GET", "/film"));
    ///
    /// let film = Full::from(Bytes::from(vec![0; 5_000]));
    /// let paced = PacedBody::new(film, outcome.meters()); // 1,000 bytes at once, the others within 4 ms
    /// assert_eq!(paced.collect().await?.to_bytes().len(), 5_000);
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct PacedBody<B> {
        #[pin]
        body: B,
        meters: Meters,
        // Received from the inner body and not yet passed on.
        buffered: Bytes,
        waiting: Option<ByteTicket>,
    }
}

impl<B> PacedBody<B> {
    /// Wraps a body. Without meters, wrapping is unnecessary.
    pub const fn new(body: B, meters: Meters) -> Self {
        Self { body, meters, buffered: Bytes::new(), waiting: None }
    }
}

impl<B> Body for PacedBody<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if this.buffered.is_empty() {
            let frame = match ready!(this.body.poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) if !data.is_empty() => *this.buffered = data,
                Ok(nothing) => return Poll::Ready(Some(Ok(Frame::data(nothing)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let max = this.buffered.len().min(MAX_CHUNK_BYTES);
        let granted = match this.waiting {
            Some(waiting) => ready!(Pin::new(waiting).poll(context)),
            None => match this.meters.try_take(max as u64) {
                0 => ready!(Pin::new(this.waiting.insert(this.meters.take(max as u64))).poll(context)),
                granted => granted,
            },
        };
        *this.waiting = None;
        // Never more than requested.
        let part = this.buffered.split_to(usize::try_from(granted).map_or(max, |granted| granted.min(max)));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.buffered.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (behind, here) = (self.body.size_hint(), self.buffered.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(behind.lower().saturating_add(here));
        if let Some(upper) = behind.upper().and_then(|upper| upper.checked_add(here)) {
            hint.set_upper(upper);
        }
        hint
    }
}
