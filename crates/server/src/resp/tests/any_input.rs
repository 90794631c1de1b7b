//! Arbitrary input: no panic, termination, bounded memory.

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{RespServer, command};

/// Sends bytes in chunks and reads all replies until the end.
async fn reply_bytes(server: &RespServer, chunks: Vec<Vec<u8>>) -> usize {
    let client = server.connect_with(512);
    let (mut read, mut write) = tokio::io::split(client.io);
    let sending = tokio::spawn(async move {
        for chunk in chunks {
            if write.write_all(&chunk).await.is_err() {
                break;
            }
        }
        let _ = write.shutdown().await;
    });
    let mut total = 0;
    let mut some = [0; 4_096];
    while let Ok(more @ 1..) = read.read(&mut some).await {
        total += more;
    }
    client.served.await.unwrap();
    sending.await.unwrap();
    total
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let known = super::super::command::COMMANDS.iter().map(|known| known.name.as_bytes().to_vec()).collect::<Vec<_>>();
    prop_oneof![
        4 => proptest::sample::select(known),
        1 => vec(any::<u8>(), 0..10),
    ]
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..20),
        proptest::sample::select(
            [
                "2",
                "3",
                "0",
                "1",
                "-1",
                "9223372036854775807",
                "-9223372036854775808",
                "per-account",
                "COST",
                "account",
                "client.ip",
                "auth",
                "setname",
                "get",
                "*",
                "info",
                "docs",
                "list",
                "getkeys",
                "id",
                "header['x']",
                "cl.throttle",
            ]
            .map(|word| word.as_bytes().to_vec())
            .to_vec()
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes(chunks in vec(vec(any::<u8>(), 0..300), 0..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(reply_bytes(&RespServer::new(), chunks));
    }

    #[test]
    fn arbitrary_commands(
        secret in any::<bool>(),
        commands in vec((names(), vec(words(), 0..8)), 0..20),
    ) {
        let chunks = commands.into_iter().map(|(name, words)| {
            let all: Vec<&[u8]> = std::iter::once(name.as_slice()).chain(words.iter().map(Vec::as_slice)).collect();
            command(&all)
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let server = RespServer::with_secret(secret.then_some("correct horse"));
        runtime.block_on(reply_bytes(&server, chunks.collect()));
    }
}
