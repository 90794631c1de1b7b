//! A statement that begins once it has a place, and gives it back when it ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use sqlx::Error;

use super::refused::refused;
use crate::pool::{InLine, Place};

/// Work that was not begun yet, as a future or a stream: neither does anything before it is polled.
pub(super) struct InPlace<W> {
    // Dropped in this order: the connection is given back before the place is.
    work: Option<W>,
    place: Option<Place>,
    line: InLine,
}

impl<W> InPlace<W> {
    pub(super) const fn new(line: InLine, work: W) -> Self {
        Self { work: Some(work), place: None, line }
    }

    /// Waits for the place. Whoever is refused has no work left.
    fn poll_place(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.place.is_some() {
            return Poll::Ready(Ok(()));
        }
        match ready!(Pin::new(&mut self.line).poll(context)) {
            Ok(place) => {
                self.place = Some(place);
                Poll::Ready(Ok(()))
            }
            Err(refusal) => {
                self.end();
                Poll::Ready(Err(refused(refusal)))
            }
        }
    }

    fn end(&mut self) {
        self.work = None;
        self.place = None;
    }
}

impl<T> Future for InPlace<BoxFuture<'_, Result<T, Error>>> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.work.is_some() {
            ready!(this.poll_place(context))?;
        }
        // Polled again after it was ready: there is nothing more to come.
        let Some(work) = &mut this.work else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(context));
        this.end();
        Poll::Ready(output)
    }
}

impl<T> Stream for InPlace<BoxStream<'_, Result<T, Error>>> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.work.is_some()
            && let Err(error) = ready!(this.poll_place(context))
        {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(work) = &mut this.work else { return Poll::Ready(None) };
        let item = ready!(work.as_mut().poll_next(context));
        if item.is_none() {
            this.end();
        }
        Poll::Ready(item)
    }
}
