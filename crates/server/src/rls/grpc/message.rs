//! One message out of a request's body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tonic::Status;

use super::body::PREFIX;

/// A message being received. The usual one comes in a single piece, which is then not copied.
pub(crate) struct Receiving<B> {
    body: B,
    /// The longest message.
    most: usize,
    so_far: Gathered,
}

enum Gathered {
    Nothing,
    Whole(Bytes),
    Pieces(BytesMut),
}

impl<B> Receiving<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    pub(crate) fn new(body: B, most: usize) -> Self {
        Self { body, most, so_far: Gathered::Nothing }
    }

    /// Receives until the client has said all.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(self.message()),
                // The client is gone: nobody will read why.
                Some(Err(_)) => return Poll::Ready(Err(Status::cancelled("the request broke off"))),
                Some(Ok(frame)) => {
                    // What is no data are trailers, which say nothing here.
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
        self.so_far = match std::mem::replace(&mut self.so_far, Gathered::Nothing) {
            gathered if data.is_empty() => gathered,
            Gathered::Nothing => Gathered::Whole(data),
            Gathered::Whole(first) => {
                let mut pieces = BytesMut::with_capacity(first.len() + data.len());
                pieces.extend_from_slice(&first);
                pieces.extend_from_slice(&data);
                Gathered::Pieces(pieces)
            }
            Gathered::Pieces(mut pieces) => {
                pieces.extend_from_slice(&data);
                Gathered::Pieces(pieces)
            }
        };
        self.look()
    }

    /// How many bytes have come.
    pub(crate) fn received(&self) -> usize {
        self.bytes().len()
    }

    fn bytes(&self) -> &[u8] {
        match &self.so_far {
            Gathered::Nothing => &[],
            Gathered::Whole(bytes) => bytes,
            Gathered::Pieces(pieces) => pieces,
        }
    }

    /// Whether what has come can still become a message: what is too long is not waited for.
    fn look(&self) -> Result<(), Status> {
        let bytes = self.bytes();
        let Some((&[compressed, ref length @ ..], rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(()) };
        if compressed != 0 {
            return Err(Status::unimplemented("compressed messages are not understood: send them as they are"));
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.most {
            let most = self.most;
            return Err(Status::resource_exhausted(format!("the request has {length} bytes; the most are {most}")));
        }
        if rest.len() > length {
            return Err(Status::internal("more than one message in a call of one"));
        }
        Ok(())
    }

    /// The message, once everything has come.
    fn message(&mut self) -> Result<Bytes, Status> {
        let bytes = match std::mem::replace(&mut self.so_far, Gathered::Nothing) {
            Gathered::Nothing => return Err(Status::internal("no message in the request")),
            Gathered::Whole(bytes) => bytes,
            Gathered::Pieces(pieces) => pieces.freeze(),
        };
        let is_whole = bytes
            .split_first_chunk::<PREFIX>()
            .is_some_and(|([_, length @ ..], rest)| u32::from_be_bytes(*length) as usize == rest.len());
        if is_whole { Ok(bytes.slice(PREFIX..)) } else { Err(Status::internal("the message is cut short")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::convert::Infallible;
    use std::task::Waker;
    use tonic::Code;

    /// A body of these pieces.
    struct Pieces(Vec<&'static [u8]>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let next = if self.0.is_empty() { None } else { Some(self.0.remove(0)) };
            Poll::Ready(next.map(|piece| Ok(Frame::data(Bytes::from_static(piece)))))
        }
    }

    fn receive(pieces: &[&'static [u8]]) -> Result<Bytes, Code> {
        let mut receiving = Receiving::new(Pieces(pieces.to_vec()), 8);
        match receiving.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(received) => received.map_err(|status| status.code()),
            Poll::Pending => panic!("there is nothing to wait for"),
        }
    }

    #[test]
    fn a_message_is_the_same_however_it_is_cut() {
        let whole: &[u8] = b"\0\0\0\0\x04abcd";
        assert_eq!(receive(&[whole]).unwrap(), "abcd");
        for at in 0..=whole.len() {
            let (first, second) = whole.split_at(at);
            assert_eq!(receive(&[first, second]).unwrap(), "abcd", "{at}");
        }
        let bytes: Vec<&'static [u8]> = whole.chunks(1).collect();
        assert_eq!(receive(&bytes).unwrap(), "abcd");
        assert_eq!(receive(&[b"\0\0\0\0\0"]).unwrap(), "");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (pieces, code) in [
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
            assert_eq!(receive(pieces).unwrap_err(), code, "{pieces:?}");
        }
    }
}
