//! Protocol detection by the first bytes of a connection: the HTTP/2 connection preface, or anything else.

/// HTTP/2 connection preface (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Protocol of the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// Too few bytes to decide.
    Undecided,
    /// Not HTTP/2, and therefore HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl FirstBytes {
    /// Detects the protocol of everything received so far.
    pub fn of(received: &[u8]) -> Self {
        let compared = received.len().min(HTTP2_PREFACE.len());
        if received[..compared] != HTTP2_PREFACE[..compared] {
            Self::Http1
        } else if compared == HTTP2_PREFACE.len() {
            Self::Http2
        } else {
            Self::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_preface_is_http2() {
        for length in 0..HTTP2_PREFACE.len() {
            assert_eq!(FirstBytes::of(&HTTP2_PREFACE[..length]), FirstBytes::Undecided);
        }
        assert_eq!(FirstBytes::of(HTTP2_PREFACE), FirstBytes::Http2);
        assert_eq!(FirstBytes::of(&[HTTP2_PREFACE, b"\0\0"].concat()), FirstBytes::Http2);
        for other in [&b"G"[..], b"PRI * HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r ", b"\r\n"] {
            assert_eq!(FirstBytes::of(other), FirstBytes::Http1);
        }
    }
}
