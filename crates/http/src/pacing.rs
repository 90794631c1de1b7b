//! Bodies that pass no faster than the rules let them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate_engine::sluice::{Meters, TakingBytes};

/// The most that passes at once: bodies that share a rate take turns.
const MOST_AT_ONCE: usize = 16 << 10;

pin_project! {
    /// A body whose bytes are metered. What may pass is never held back; what may not waits for its turn,
    /// and the body behind it is not asked for more meanwhile. Trailers pass as they are.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::{BodyExt, Full};
    /// use sluicegate_engine::{Limit, Rate, Sluice, rule::{Request, Rule}};
    /// use sluicegate_http::Paced;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let download = Limit::bandwidth(Rate::per_second(1_000_000)?, 1_000)?;
    /// let sluice = Sluice::builder().rule(Rule::new("download", [download])).build()?;
    /// let outcome = sluice.decide(&Request::new("GET", "/film"));
    ///
    /// let film = Full::from(Bytes::from(vec![0; 5_000]));
    /// let paced = Paced::new(film, outcome.meters()); // a thousand at once, the rest in four milliseconds
    /// assert_eq!(paced.collect().await?.to_bytes().len(), 5_000);
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct Paced<B> {
        #[pin]
        body: B,
        meters: Meters,
        // What has come and not passed yet.
        rest: Bytes,
        waiting: Option<TakingBytes>,
    }
}

impl<B> Paced<B> {
    /// A body behind these meters. Where there are none, it need not be wrapped.
    pub const fn new(body: B, meters: Meters) -> Self {
        Self { body, meters, rest: Bytes::new(), waiting: None }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if this.rest.is_empty() {
            let frame = match ready!(this.body.poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) if !data.is_empty() => *this.rest = data,
                Ok(nothing) => return Poll::Ready(Some(Ok(Frame::data(nothing)))),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let most = this.rest.len().min(MOST_AT_ONCE);
        let granted = match this.waiting {
            Some(waiting) => ready!(Pin::new(waiting).poll(context)),
            None => match this.meters.try_take(most as u64) {
                0 => ready!(Pin::new(this.waiting.insert(this.meters.take(most as u64))).poll(context)),
                granted => granted,
            },
        };
        *this.waiting = None;
        // Never more than was asked for.
        let part = this.rest.split_to(usize::try_from(granted).map_or(most, |granted| granted.min(most)));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (behind, here) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(behind.lower().saturating_add(here));
        if let Some(upper) = behind.upper().and_then(|upper| upper.checked_add(here)) {
            hint.set_upper(upper);
        }
        hint
    }
}
