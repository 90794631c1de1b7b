//! Reads one gRPC message from a request body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tonic::Status;

use super::body::PREFIX_BYTES;

/// A message being received. The usual single chunk is not copied.
pub(crate) struct MessageReader<B> {
    body: B,
    /// Maximum message length in bytes.
    max_bytes: usize,
    buffer: MessageBuffer,
}

enum MessageBuffer {
    Empty,
    Single(Bytes),
    Joined(BytesMut),
}

impl<B> MessageReader<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    pub(crate) fn new(body: B, max_bytes: usize) -> Self {
        Self { body, max_bytes, buffer: MessageBuffer::Empty }
    }

    /// Receives until the end of the stream.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(self.take_message()),
                // The client is gone and will not read the status.
                Some(Err(_)) => return Poll::Ready(Err(Status::cancelled("the request body was aborted"))),
                Some(Ok(frame)) => {
                    // Other frames are trailers, which are ignored.
                    if let Ok(data) = frame.into_data()
                        && let Err(status) = self.add(data)
                    {
                        return Poll::Ready(Err(status));
                    }
                }
            }
        }
    }

    fn add(&mut self, data: Bytes) -> Result<(), Status> {
        self.buffer = match std::mem::replace(&mut self.buffer, MessageBuffer::Empty) {
            unchanged if data.is_empty() => unchanged,
            MessageBuffer::Empty => MessageBuffer::Single(data),
            MessageBuffer::Single(first) => {
                let mut chunks = BytesMut::with_capacity(first.len() + data.len());
                chunks.extend_from_slice(&first);
                chunks.extend_from_slice(&data);
                MessageBuffer::Joined(chunks)
            }
            MessageBuffer::Joined(mut chunks) => {
                chunks.extend_from_slice(&data);
                MessageBuffer::Joined(chunks)
            }
        };
        self.check_prefix()
    }

    /// Number of bytes received.
    pub(crate) fn received(&self) -> usize {
        self.bytes().len()
    }

    fn bytes(&self) -> &[u8] {
        match &self.buffer {
            MessageBuffer::Empty => &[],
            MessageBuffer::Single(bytes) => bytes,
            MessageBuffer::Joined(chunks) => chunks,
        }
    }

    /// Checks the prefix early: an oversized message is not awaited.
    fn check_prefix(&self) -> Result<(), Status> {
        let bytes = self.bytes();
        let Some((&[compressed, ref length @ ..], rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(());
        };
        if compressed != 0 {
            return Err(Status::unimplemented("compressed messages are not supported: send them uncompressed"));
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.max_bytes {
            let max = self.max_bytes;
            return Err(Status::resource_exhausted(format!("the request has {length} bytes; the maximum is {max}")));
        }
        if rest.len() > length {
            return Err(Status::internal("more than one message in a unary call"));
        }
        Ok(())
    }

    /// Takes the message after the end of the stream.
    fn take_message(&mut self) -> Result<Bytes, Status> {
        let bytes = match std::mem::replace(&mut self.buffer, MessageBuffer::Empty) {
            MessageBuffer::Empty => return Err(Status::internal("no message in the request")),
            MessageBuffer::Single(bytes) => bytes,
            MessageBuffer::Joined(chunks) => chunks.freeze(),
        };
        let is_complete = bytes
            .split_first_chunk::<PREFIX_BYTES>()
            .is_some_and(|([_, length @ ..], rest)| u32::from_be_bytes(*length) as usize == rest.len());
        if is_complete { Ok(bytes.slice(PREFIX_BYTES..)) } else { Err(Status::internal("the message is truncated")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::convert::Infallible;
    use std::task::Waker;
    use tonic::Code;

    /// A body of these chunks.
    struct ChunkedBody(Vec<&'static [u8]>);

    impl Body for ChunkedBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let next = if self.0.is_empty() { None } else { Some(self.0.remove(0)) };
            Poll::Ready(next.map(|chunk| Ok(Frame::data(Bytes::from_static(chunk)))))
        }
    }

    fn receive(chunks: &[&'static [u8]]) -> Result<Bytes, Code> {
        let mut receiving = MessageReader::new(ChunkedBody(chunks.to_vec()), 8);
        match receiving.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(received) => received.map_err(|status| status.code()),
            Poll::Pending => panic!("the body is complete"),
        }
    }

    #[test]
    fn a_message_survives_any_chunking() {
        let message: &[u8] = b"\0\0\0\0\x04abcd";
        assert_eq!(receive(&[message]).unwrap(), "abcd");
        for at in 0..=message.len() {
            let (first, second) = message.split_at(at);
            assert_eq!(receive(&[first, second]).unwrap(), "abcd", "{at}");
        }
        let bytes: Vec<&'static [u8]> = message.chunks(1).collect();
        assert_eq!(receive(&bytes).unwrap(), "abcd");
        assert_eq!(receive(&[b"\0\0\0\0\0"]).unwrap(), "");
    }

    #[test]
    fn an_invalid_message_is_refused() {
        for (chunks, code) in [
            (&[][..], Code::Internal),
            (&[b"".as_slice()], Code::Internal),
            (&[b"\0\0\0"], Code::Internal),
            (&[b"\0\0\0\0\x04abc"], Code::Internal),
            (&[b"\0\0\0\0\x04abcde"], Code::Internal),
            (&[b"\0\0\0\0\0", b"\0\0\0\0\0"], Code::Internal),
            (&[b"\x01\0\0\0\x04abcd"], Code::Unimplemented),
            (&[b"\0\0\0\0\x09"], Code::ResourceExhausted),
            (&[b"\0\xff\xff\xff\xff"], Code::ResourceExhausted),
        ] {
            assert_eq!(receive(chunks).unwrap_err(), code, "{chunks:?}");
        }
    }
}
