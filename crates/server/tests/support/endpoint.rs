//! Server endpoints (TCP, Unix socket, TLS) and connecting to them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use super::with_timeout;

pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Connection over any transport.
pub type BoxedIo = Box<dyn Transport>;

#[derive(Clone)]
pub enum TestEndpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(SocketAddr, Arc<ClientConfig>),
}

impl TestEndpoint {
    /// Connects; with TLS, offers `protocol` by ALPN unless it is empty.
    pub async fn connect(&self, protocol: &[u8]) -> io::Result<BoxedIo> {
        let connecting = async {
            let io: BoxedIo = match self {
                Self::Tcp(address) => Box::new(tcp(*address).await?),
                Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
                Self::Tls(address, config) => {
                    let mut config = ClientConfig::clone(config);
                    if !protocol.is_empty() {
                        config.alpn_protocols = vec![protocol.to_vec()];
                    }
                    let name = "localhost".try_into().unwrap();
                    Box::new(TlsConnector::from(Arc::new(config)).connect(name, tcp(*address).await?).await?)
                }
            };
            Ok(io)
        };
        with_timeout("connecting", connecting).await
    }
}

async fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
