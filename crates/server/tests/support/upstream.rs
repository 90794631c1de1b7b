//! HTTP upstream that responds to every request with `hello`.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Upstream server, stopped on drop.
pub struct Upstream {
    pub address: SocketAddr,
    accept_task: JoinHandle<()>,
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accept_task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve_hello(stream));
            }
        });
        Self { address, accept_task }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

/// Serves requests without a body until the connection closes.
async fn serve_hello(stream: TcpStream) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.is_empty() && write.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await.is_err() {
            return;
        }
    }
}
