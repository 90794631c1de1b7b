//! A statement that starts with a permit, and releases the permit when it ends.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use sqlx::Error;

use super::error::refused;
use crate::bulkhead::{AcquirePermit, BulkheadPermit};

/// Work to run with a permit, as a future or a stream.
pub(super) struct WithPermit<W> {
    // Dropped in this order: the connection is returned before the permit is released.
    work: Option<W>,
    permit: Option<BulkheadPermit>,
    acquire: AcquirePermit,
}

impl<W> WithPermit<W> {
    pub(super) const fn new(acquire: AcquirePermit, work: W) -> Self {
        Self { work: Some(work), permit: None, acquire }
    }

    /// Waits for the permit. Drops the work on a refusal.
    fn poll_permit(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.permit.is_some() {
            return Poll::Ready(Ok(()));
        }
        match ready!(Pin::new(&mut self.acquire).poll(context)) {
            Ok(permit) => {
                self.permit = Some(permit);
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
        self.permit = None;
    }
}

impl<T> Future for WithPermit<BoxFuture<'_, Result<T, Error>>> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.work.is_some() {
            ready!(this.poll_permit(context))?;
        }
        // Polled again after completion.
        let Some(work) = &mut this.work else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(context));
        this.end();
        Poll::Ready(output)
    }
}

impl<T> Stream for WithPermit<BoxStream<'_, Result<T, Error>>> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.work.is_some()
            && let Err(error) = ready!(this.poll_permit(context))
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
