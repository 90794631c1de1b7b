//! Short answers in one plain write.
//!
//! The head of an answer and its body come in two pieces, which the system can write in one call; but for a
//! call with several pieces it takes its time, more than it takes to put short ones together here.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncWrite, ReadBuf};

/// How much is put together at most.
const SHORT: usize = 2 << 10;

/// Writes pieces as one, where they are short or there is only one.
///
/// ```
/// use std::io::IoSlice;
/// use std::pin::Pin;
/// use tokio::io::AsyncWriteExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (mut near, _far) = tokio::io::duplex(64);
/// let pieces = [IoSlice::new(b"head, "), IoSlice::new(b"body")];
/// let written = std::future::poll_fn(|context| sluicegate_door::write_gathered(Pin::new(&mut near), context, &pieces));
/// assert_eq!(written.await?, 10);
/// # near.shutdown().await
/// # }
/// ```
pub fn write_gathered<W: AsyncWrite>(
    to: Pin<&mut W>,
    context: &mut Context<'_>,
    pieces: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [only] = pieces {
        return to.poll_write(context, only);
    }
    let mut space = [MaybeUninit::uninit(); SHORT];
    let mut together = ReadBuf::uninit(&mut space);
    for piece in pieces {
        if piece.len() > together.remaining() {
            return to.poll_write_vectored(context, pieces);
        }
        together.put_slice(piece);
    }
    to.poll_write(context, together.filled())
}
