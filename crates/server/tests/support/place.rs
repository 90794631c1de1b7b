//! Where a protocol is spoken, and connecting there.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use super::soon;

pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A connection, whatever it goes over.
pub type Io = Box<dyn Wire>;

#[derive(Clone)]
pub enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(SocketAddr, Arc<ClientConfig>),
}

impl Place {
    /// Connects, to speak this protocol (as ALPN names it, if it does).
    pub async fn connect(&self, protocol: &[u8]) -> io::Result<Io> {
        let connecting = async {
            let io: Io = match self {
                Self::Tcp(at) => Box::new(tcp(*at).await?),
                Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
                Self::Tls(at, config) => {
                    let mut config = ClientConfig::clone(config);
                    if !protocol.is_empty() {
                        config.alpn_protocols = vec![protocol.to_vec()];
                    }
                    let name = "localhost".try_into().unwrap();
                    Box::new(TlsConnector::from(Arc::new(config)).connect(name, tcp(*at).await?).await?)
                }
            };
            Ok(io)
        };
        soon("to connect", connecting).await
    }
}

async fn tcp(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
