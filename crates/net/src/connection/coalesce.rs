//! Coalesces short vectored writes into one plain write.
//!
//! A response head and its body arrive as two slices, which `writev` could send in one call; for short slices
//! that system call takes longer than copying them into one buffer.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncWrite, ReadBuf};

/// Maximum number of bytes that are copied together.
const MAX_COALESCED_BYTES: usize = 2 << 10;

/// Writes slices as one buffer if they are short, or if there is only one.
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
/// let written = std::future::poll_fn(|context| sluicegate_net::write_coalesced(Pin::new(&mut near), context, &pieces));
/// assert_eq!(written.await?, 10);
/// # near.shutdown().await
/// # }
/// ```
pub fn write_coalesced<W: AsyncWrite>(
    writer: Pin<&mut W>,
    context: &mut Context<'_>,
    pieces: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [only] = pieces {
        return writer.poll_write(context, only);
    }
    let mut space = [MaybeUninit::uninit(); MAX_COALESCED_BYTES];
    let mut buffer = ReadBuf::uninit(&mut space);
    for piece in pieces {
        if piece.len() > buffer.remaining() {
            return writer.poll_write_vectored(context, pieces);
        }
        buffer.put_slice(piece);
    }
    writer.poll_write(context, buffer.filled())
}
